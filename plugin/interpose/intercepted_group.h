// The thread's group, of which NCCL has one part and the engine another.
#pragma once

namespace terse::interpose {

// Where a call of ours throws in a group: to be called while it does. As with NCCL's own calls,
// nothing of the group will run then, and its end says why. Nothing outside of a group.
void fail_group() noexcept;

}  // namespace terse::interpose
