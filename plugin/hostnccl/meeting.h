// How the members of a new communicator are chosen and find each other: by unique id, by splitting
// a communicator, by shrinking one.
#pragma once

#include <vector>

#include "comm.h"

namespace hostnccl {

Comm::Meet meet_by_id(const ncclUniqueId& id, int rank, int size);

// Asks all ranks of the parent, in order with its other calls.
Comm::Meet meet_by_split(const CommPtr& parent, int color, int key);

// Meeting for a split of a revoked parent, which carries no more messages: its ranks call at the
// listener of its first one, which serves one split at a time.
Comm::Meet meet_by_late_split(const CommPtr& parent, int color, int key);

// Asks nobody: the parent may have lost ranks. Meets where the lowest survivor's parent listens.
// `number`: the parent's for the call.
Comm::Meet meet_by_shrink(const CommPtr& parent, uint64_t number, const std::vector<int>& excluded);

}  // namespace hostnccl
