// Sample of a shard, by which a buffer is recognised to have other weights than before (is_near()).
#pragma once

#include <vector>

#include "engine/comm/communicator.h"

namespace terse {

// Elements from all over the shard `send`, whose size `kind` has: a part may be all zeros, or alike
// in all shards. Uses the room() of the communicator's shadows. Waits for the lane. Throws Error.
std::vector<float> sample_of_shard(Communicator& c, const void* send, const ShadowKind& kind,
                                   Stream lane);

}  // namespace terse
