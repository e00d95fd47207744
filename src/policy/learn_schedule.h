// Schedule of the fits of a learned codec's levels (terse.h, terseSchemeParse: learn).
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace terse {

// Calls of a kind with a fit, counted from 1, ascending; the others are 0.
struct Learn {
  static constexpr size_t kMax = 8;
  std::array<uint64_t, kMax> calls = {1, 100, 1000, 10000};

  bool at(uint64_t call) const { return call != 0 && std::ranges::count(calls, call) != 0; }
  auto operator<=>(const Learn&) const = default;
};

// `text`: the whole scheme. Throws Error(ncclInvalidArgument) that names it.
Learn parse_learn(std::string_view text, std::string_view value);
std::string print_learn(const Learn& learn);

}  // namespace terse
