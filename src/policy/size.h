// Sizes in bytes, and tags of calls, as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terse {

// A number with an optional K, M or G (powers of 1024); empty when it is none or does not fit.
std::optional<uint64_t> parse_size(std::string_view text);

// A number of 64 bits, decimal or hexadecimal after 0x, that means nothing but itself; empty when
// it is none or does not fit.
std::optional<uint64_t> parse_tag(std::string_view text);

// The shortest text that parses back to `bytes`.
std::string print_size(uint64_t bytes);

}  // namespace terse
