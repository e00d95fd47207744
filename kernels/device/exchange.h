// Parameters of a fused kernel beside its batch: windows, and which pieces belong to which stage.
// Kernels of a window run one after another, each when the one before has ended.
#pragma once

#include <span>

#include "kernels/device/window.h"

namespace terse::kernels {

struct Exchange {
  char* window[kMaxWindows];  // by rank, aligned as any memory of CUDA's
  const uint32_t* abort;      // read while the kernel waits; not 0: it ends without a result
  const uint32_t*
      left;             // likewise: a bit of each rank that the host knows to have left; null: none
  uint64_t slot_bytes;  // between the two slots of an area, a multiple of 256; 0: it has one
  uint32_t ranks, self;
  uint32_t max_warps;               // of any kernel on these windows
  uint32_t pushes, makes;           // pieces of the batch, in this order; the rest are takes
  bool pushing, sharing;            // halves of the call
  bool push_content, make_content;  // pieces draw by the batch's content
  uint32_t tiles;                   // of the longest piece
  uint64_t number;          // of the call on its communicator; 0: that of a graph, which may replay
  codec::CallHeader call;   // of this rank, compared with the peers' before a result is written
  uint32_t digest;          // of that
  codec::Mismatch* report;  // of calls that differ, in memory that the host reads; null: of none
};

// Works of a fused call on one rank, whose packed memory is in windows. Pushes go into peers', and
// what `makes` packs into the own one, from where it goes to the same place of all. All ranks have
// the same number of elements in their longest works.
struct FusedWorks {
  std::span<const codec::Combine> pushes, makes, takes;
};

struct FusedBatch {
  KernelId kernel;  // by which packed memory is written
  FusedPieces batch;
  Exchange exchange;  // of pieces alone; the rest is up to who launches it
};

// Throws std::invalid_argument if one kernel cannot do the works.
FusedBatch make_fused_batch(const FusedWorks& works, const uint64_t* replays);

static_assert(sizeof(FusedPieces) + sizeof(Exchange) <= 4096,
              "what every driver takes as a kernel's parameters");

}  // namespace terse::kernels
