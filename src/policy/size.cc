#include "policy/size.h"

#include <fmt/format.h>

#include <charconv>

#include "policy/scheme.h"

namespace terse {
namespace {

constexpr std::string_view kUnits = "KMG";

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
  uint64_t unit = 1;
  if (!text.empty()) {
    const size_t k = kUnits.find(text.back());
    if (k != kUnits.npos) {
      unit = uint64_t{1} << 10 * (k + 1);
      text.remove_suffix(1);
    }
  }
  const std::optional<uint64_t> number = parse_number(text);
  if (!number || *number > UINT64_MAX / unit) return {};
  return *number * unit;
}

std::optional<uint64_t> parse_tag(std::string_view text) {
  constexpr std::string_view kHex = "0x";
  if (!text.starts_with(kHex)) return parse_number(text);
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + kHex.size(), end, value, 16);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

std::string print_size(uint64_t bytes) {
  size_t k = 0;
  while (k < kUnits.size() && bytes != 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++k;
  }
  return k == 0 ? fmt::format("{}", bytes) : fmt::format("{}{}", bytes, kUnits[k - 1]);
}

}  // namespace terse
