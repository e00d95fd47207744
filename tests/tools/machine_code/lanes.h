// Values of a warp's 32 lanes.
#pragma once

#include <array>
#include <cstdint>

namespace terse::machine {

constexpr uint32_t kLanes = 32;

// A bit for each lane.
using Mask = uint32_t;
constexpr Mask kAllLanes = ~Mask{0};

constexpr Mask bit(uint32_t lane) { return Mask{1} << lane; }

template <class T>
using Lanes = std::array<T, kLanes>;

template <class T>
Lanes<T> all_lanes(T value) {
  Lanes<T> lanes;
  lanes.fill(value);
  return lanes;
}

// f of each lane's values.
template <class F, class... T>
auto map(F f, const Lanes<T>&... x) {
  Lanes<decltype(f(x[0]...))> y;
  for (uint32_t lane = 0; lane < kLanes; ++lane) y[lane] = f(x[lane]...);
  return y;
}

// The lanes for which f is true.
template <class F, class... T>
Mask where(F f, const Lanes<T>&... x) {
  Mask mask = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) mask |= f(x[lane]...) ? bit(lane) : 0;
  return mask;
}

// Bit by bit the entry of a table of eight at (a, b, c).
constexpr uint32_t by_table(uint32_t table, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t word = 0;
  for (uint32_t i = 0; i < 8; ++i)
    if (table >> i & 1) word |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return word;
}

}  // namespace terse::machine
