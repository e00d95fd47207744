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

}  // namespace terse::machine
