// What a call sends over the link that the ranks of a node share.
#pragma once

#include "plan/algorithms.h"

namespace terse::plan {

// By what all ranks know alike. Of Send and Recv nothing: the others know nothing of them.
Link link_of(const Algorithm& algorithm, const Shape& shape);

// Whether a call would send more over it than NCCL does, and so is to stay native.
inline bool sends_more_than_native(const Link& link) {
  return link.compressed.off_node > link.native.off_node;
}

// With what NCCL carries beside the algorithm, but to know its error.
void add_natives(const std::vector<Step>& steps, const Shape& shape, Link* link);

// Uncompressed, by what is known of NCCL (raw_traffic): of all ranks of the node that sends the
// most to others, or of the only one. `bytes`: of what the call counts.
Traffic native_link(Collective collective, size_t bytes, int root, const Topology& topology);

}  // namespace terse::plan
