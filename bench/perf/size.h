// Sizes as people write them: 8, 1K, 64M, 1G.
#pragma once

#include <cstddef>
#include <string>

namespace terse::perf {

// Reads a non-negative number with an optional suffix K, M, G or T (either case, powers of 1024),
// fractions allowed (1.5M). Throws std::invalid_argument, naming the text, on anything else.
std::size_t parse_size(const std::string& text);

}  // namespace terse::perf
