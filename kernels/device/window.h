// A window: memory of a rank into which the kernels of its peers write. It begins with a header;
// behind it lie areas, at places that are alike on all ranks and in all calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/call_header.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

constexpr uint32_t kMaxWindows = 16;  // ranks that write into each other's
constexpr uint32_t kMaxUnits = 1024;  // warps of a kernel
constexpr uint32_t kMaxFusedBlocks = kMaxUnits / kWarps;

// Number on a communicator that no call has.
constexpr uint64_t kBehindAll = ~uint64_t{0};

// Meetings of a call, in each of which every rank raises a flag: one, or two of a call that pushes
// and shares.
enum class Meeting : uint32_t { kFirst, kSecond };

struct WindowHeader {
  // The rank's own, of a warp, or of a unit.
  struct Unit {
    uint32_t epoch[2];  // laps of the unit with a meeting, over all calls, by Meeting
    uint32_t turns;  // calls that used a slot, which is the number's last bit: of all warps alike
  };
  // Written by another rank.
  struct FromRank {
    codec::CallHeader call;      // that it has come to, before its first unit's flag
    codec::CallHeader in_steps;  // that it does in steps
    uint64_t number_in_steps;    // of that on the communicator, a flag behind it; 0: none;
                                 // kBehindAll: the rank has left
    uint32_t gone;               // not 0: the rank writes nothing more here
    uint32_t reserved[13];
  };
  Unit unit[kMaxUnits];
  // Flags by meeting, unit and rank, each written by that rank alone: the unit's epoch there, and
  // in the upper half the digest of the call.
  uint64_t flag[2][kMaxUnits][kMaxWindows];
  // The rank's own, not 0: it has left a call, or not begun it.
  uint32_t gives_up;
  uint32_t reserved[15];
  FromRank from[kMaxWindows];
};

constexpr size_t kWindowHeaderBytes = size_t{320} << 10;
static_assert(sizeof(WindowHeader) <= kWindowHeaderBytes);

}  // namespace terse::kernels
