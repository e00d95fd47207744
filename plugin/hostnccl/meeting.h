// How the members of a new communicator are chosen and find each other: by unique id, by splitting
// a communicator, by shrinking one.
#ifndef HOSTNCCL_MEETING_H_
#define HOSTNCCL_MEETING_H_

#include <vector>

#include "comm.h"

namespace hostnccl {

Comm::Meet MeetById(const ncclUniqueId& id, int rank, int size);

// Asks all ranks of the parent, in order with its other calls.
Comm::Meet MeetBySplit(const CommPtr& parent, int color, int key);

// Asks nobody: the parent may have lost ranks. Meets where the lowest survivor's parent listens.
Comm::Meet MeetByShrink(const CommPtr& parent, const std::vector<int>& excluded);

}  // namespace hostnccl

#endif  // HOSTNCCL_MEETING_H_
