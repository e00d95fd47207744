// Fusion: a plan of one chunk as one kernel carries it out, with the same computes and so the same
// bytes. The ranks have opened windows of memory to each other: what a plan packs into scratch and
// sends, the kernel packs into the peer's window, and raises a flag there.
//
// A window has areas whose places do not depend on the call, so that calls of different sizes never
// meet in one: `pushed` for what peers write for this rank alone, `shared` for what all ranks get
// alike, and two of each, by turns, for calls in which no flag comes back.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace terse::plan {

// A kernel's pieces on one rank, in order. Places in Region::kScratch are offsets in an area of a
// window, but for fingerprints, which lie in the rank's own scratch. A rank without pieces of a
// stage raises and awaits its flags all the same.
struct Fused {
  enum class Form : uint8_t {
    kShare,          // packs, shares, takes: AllGather, one-shot AllReduce
    kReduce,         // pushes, takes what is pushed: ReduceScatter, AllToAll
    kReduceAndShare  // both: two-shot AllReduce
  };
  struct Push {
    int peer;  // whose area is written; the rank itself for what it packs for its own sum
    Compute compute;
  };

  static constexpr int kMaxRanks = 16;

  Form form = Form::kShare;
  const char* algorithm = "";
  std::vector<Fingerprint> fingerprints;  // made before the kernel
  size_t scratch_bytes = 0;               // of those
  std::vector<Push> pushes;               // into the peers' `pushed`
  // From the send buffer or the own `pushed`, once all peers' pushes are there; to the receive
  // buffer, or to the own `shared` and to the same place of all peers'.
  std::vector<Compute> makes;
  std::vector<size_t> made_bytes;  // packed, of each of those; 0: in the receive buffer
  std::vector<Compute> takes;      // from the own `shared`, once all peers' parts are there
  std::vector<Copy> copies;        // from the send to the receive buffer
  size_t pushed_bytes = 0, shared_bytes = 0;  // of the areas, alike on all ranks
  Buffers buffers;                            // the plan's, as are the bytes to peers
  size_t wire_bytes = 0;

  // Visits the computes of all stages.
  template <class Visit>
  void each_compute(const Visit& visit) const {
    for (const Push& push : pushes) visit(push.compute);
    for (const Compute& make : makes) visit(make);
    for (const Compute& take : takes) visit(take);
  }

  bool pushing() const { return form != Form::kShare; }
  bool sharing() const { return form != Form::kReduce; }
  // Flags that a rank raises at each peer.
  size_t flags() const { return pushing() + sharing(); }
  // Returns true if no flag comes back from a peer that has read: the areas are those used by
  // turns.
  bool alternates() const { return flags() == 1; }
};

struct Fusion {
  std::vector<Fused> by_rank;  // empty: the plan is not fused
  std::string reason;          // then: "for all ranks are not on one node"
};

// Fuses the plans that `build` makes of a call for all its ranks, in one chunk whatever the shape's
// policy. `build` depends on its argument alone. Refuses collectives with a root, plans of another
// form, more than kMaxRanks ranks, nodes that are not known to be one, and windows of more than
// max_window_bytes.
Fusion fuse(Collective collective, const std::function<Plan(const Shape&)>& build,
            const Shape& shape, size_t max_window_bytes);

// Plan of a fused call on one rank, whose plan of steps is `usual`.
Plan with_windows(const Plan& usual, Fused fused);

// Returns what is wrong with a call's pieces on all its ranks; empty: nothing. Checks that all
// ranks have one form and areas of one size, that places lie within areas and buffers, that each
// byte of an area is written by one piece of one rank at most, and in an earlier stage than it is
// read, and that each byte of the receive buffer is written once.
std::string validate(std::span<const Fused> by_rank, const Shape& shape);

// Prints one line for each piece.
std::string print(const Fused& fused);

}  // namespace terse::plan
