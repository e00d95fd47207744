#include "policy/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "policy/scheme.h"

namespace terse {
namespace {

constexpr std::string_view kUnits = "KMG", kSmallUnits = "kmg";

// Power of 1024 that a unit stands for: K, k, KB or KiB is 1; empty: it is none.
std::optional<size_t> power_of(std::string_view unit) {
  if (unit.empty() || unit == "B") return 0;
  const size_t k = std::min(kUnits.find(unit.front()), kSmallUnits.find(unit.front()));
  const std::string_view rest = unit.substr(1);
  if (k >= kUnits.size() || !(rest.empty() || rest == "B" || rest == "iB")) return {};
  return k + 1;
}

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::optional<size_t> power = power_of(text.substr(digits));
  if (!power) return {};
  const uint64_t unit = uint64_t{1} << 10 * *power;
  const std::optional<uint64_t> number = parse_number(text.substr(0, digits));
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
