// Bytes of a call on the link that the ranks of a node share.
#pragma once

#include "plan/algorithms.h"

namespace terse::plan {

// Link of a call, from what all ranks know alike. Nothing for Send and Recv, which the other ranks
// do not know.
Link link_of(const Algorithm& algorithm, const Shape& shape);

// Returns true if a call would send more than NCCL does, and so must stay native. Packed shards are
// of whole words, whose padding does not count: at most a thousandth.
inline bool sends_more_than_native(const Link& link) {
  return link.compressed.off_node > link.native.off_node + link.native.off_node / 1024;
}

// Adds what NCCL carries beside the algorithm, without the run for its error.
void add_natives(const std::vector<Step>& steps, const Shape& shape, Link* link);

// Bytes of an uncompressed call, by the model of NCCL (raw_traffic): of all ranks of the node that
// sends the most to others, or of the only node. Off its pod: its part of what the pod sends.
// `bytes`: of the call's count.
Traffic native_link(Collective collective, size_t bytes, int root, const Topology& topology);

}  // namespace terse::plan
