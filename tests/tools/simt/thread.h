// One thread of a block, and what it is at.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "fiber.h"
#include "site.h"
#include "warp.h"

namespace terse::simt::internal {

enum class Activity {
  kRunning,
  kShuffleXor,
  kShuffle,
  kBallot,
  kSyncWarp,
  kSyncBlock,
  kPause,
  kExited
};

struct Thread {
  uint32_t index = 0;
  Fiber* fiber = nullptr;
  Activity activity = Activity::kRunning;
  Site site;                   // of what it waits at
  const void* flag = nullptr;  // that it has looked at last
  bool looks = false;          // at flags, since it paused
  uint64_t delivered = 0;      // flags' values that had arrived at its first look

  uint32_t warp() const { return index / kLanes; }
  uint32_t lane() const { return index % kLanes; }

  void wait_at(Activity what, Site where) {
    activity = what;
    site = where;
  }
};

// Whether all wait at the same call.
bool together(std::span<const Thread> threads);

// Who is at what: "threads 0-15 at shuffle (a.h:12); threads 16-31 have exited".
std::string describe(std::span<const Thread> threads);

}  // namespace terse::simt::internal
