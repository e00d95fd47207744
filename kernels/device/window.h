// A window: memory of a rank into which the kernels of its peers write. It begins with a header;
// behind it lie areas, at places that are alike on all ranks and in all calls.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/device/batch.h"

namespace terse::kernels {

constexpr uint32_t kMaxWindows = 16;  // ranks that write into each other's
constexpr uint32_t kMaxUnits = 1024;  // warps of a kernel
constexpr uint32_t kMaxFusedBlocks = kMaxUnits / kWarps;

// Halves of a call: each ends with a flag from every rank.
enum class Half : uint32_t { kPush, kShare };

struct WindowHeader {
  // The rank's own, of a warp, or of a unit.
  struct Unit {
    uint32_t epoch;  // laps of the unit, over all calls
    uint32_t turns;  // calls that used a slot, which is the number's last bit: of all warps alike
    uint32_t gives_up;  // not 0: the unit has left a call, or not begun it
    uint32_t reserved;
  };
  Unit unit[kMaxUnits];
  // Flags by half, unit and rank, each written by that rank alone: the unit's epoch there.
  uint32_t flag[2][kMaxUnits][kMaxWindows];
};

constexpr size_t kWindowHeaderBytes = size_t{256} << 10;
static_assert(sizeof(WindowHeader) <= kWindowHeaderBytes);

}  // namespace terse::kernels
