// Sizes in bytes, and tags of calls, as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terse {

// Number with an optional K, M or G (powers of 1024), as in 64M, 64m, 64MB or 64MiB; empty: it is
// none, or does not fit.
std::optional<uint64_t> parse_size(std::string_view text);

// Number of 64 bits, decimal or hexadecimal after 0x; empty: it is none, or does not fit.
std::optional<uint64_t> parse_tag(std::string_view text);

// Shortest text that parses back to `bytes`.
std::string print_size(uint64_t bytes);

}  // namespace terse
