// Which calls ranks of one node fuse (plan/fuse.h), and the windows that they need: by what all
// ranks know alike.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

#include "backend/windows.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "plan/fuse.h"
#include "policy/scheme.h"
#include "policy/settings.h"

namespace terse {

// Room that calls take in a window of each rank.
struct WindowRoom {
  size_t area_bytes = 0;
  Windows::Kinds kinds = {};

  size_t bytes() const { return Windows::bytes(area_bytes, kinds); }
  bool covers(const WindowRoom& other) const {
    return area_bytes >= other.area_bytes && (kinds.halves || !other.kinds.halves) &&
           (kinds.turns || !other.kinds.turns);
  }
};

// Room for both.
inline WindowRoom join(const WindowRoom& a, const WindowRoom& b) {
  return {std::max(a.area_bytes, b.area_bytes),
          {a.kinds.halves || b.kinds.halves, a.kinds.turns || b.kinds.turns}};
}

// Room of a call, rounded up so that few sizes are asked for.
inline WindowRoom room_of(const plan::Fused& fused) {
  const size_t bytes = std::max(fused.pushed_bytes, fused.shared_bytes);
  const size_t unit = std::max(size_t{64} << 10, std::bit_floor(bytes) / 4);
  return {(bytes + unit - 1) / unit * unit, {!fused.alternates(), fused.alternates()}};
}

// Max bytes of a window, 0: no call is fused. What is verified takes part in steps.
inline size_t max_window_bytes(const Settings& settings, bool on_gpus) {
  return fuses(settings.fuse, on_gpus) && settings.verify == 0 ? settings.window_bytes : 0;
}

// Fusion of a call by an algorithm, if its room is at most so large.
inline plan::Fusion fusion_of(const plan::Algorithm& algorithm, const plan::Shape& shape,
                              const plan::Delta& delta, size_t max_window_bytes) {
  const auto build = [&](const plan::Shape& s) { return plan::build(algorithm, s, delta); };
  plan::Fusion fusion = plan::fuse(algorithm.collective, build, shape, max_window_bytes);
  if (fusion.by_rank.empty()) return fusion;
  const size_t bytes = room_of(fusion.by_rank.front()).bytes();
  if (bytes <= max_window_bytes) return fusion;
  return {{},
          fmt::format("for it needs a window of {} B, more than {} B", bytes, max_window_bytes)};
}

// Which calls may be fused.
struct Fusing {
  size_t window_bytes = 0;            // max of a window; 0: no call is fused
  WindowRoom room = {};               // of the windows that all ranks have
  size_t refused_bytes = ~size_t{0};  // of windows that the ranks have asked each other for in vain
  std::function<bool(const Forms& forms, codec::Dtype dtype)> takes = {};  // empty: all

  // Returns true if the ranks have windows with such room, too, or may ask each other for them.
  bool allows(const WindowRoom& more) const {
    const size_t bytes = join(room, more).bytes();
    return bytes <= window_bytes && bytes < refused_bytes;
  }
};

// Flags that a rank raises at each peer in a call; 0: it is done in steps.
inline size_t flags_of(const Fusing& fusing, const plan::Algorithm& algorithm,
                       const plan::Shape& shape, const Scheme& scheme, codec::Dtype dtype) {
  if (fusing.window_bytes == 0 || scheme.delta) return 0;
  if (fusing.takes && !fusing.takes(scheme.forms(), dtype)) return 0;
  const plan::Fusion fusion =
      fusion_of(algorithm, shape, {.own_exact = scheme.delta.own_exact}, fusing.window_bytes);
  if (fusion.by_rank.empty() || !fusing.allows(room_of(fusion.by_rank.front()))) return 0;
  return fusion.by_rank.front().flags();
}

}  // namespace terse
