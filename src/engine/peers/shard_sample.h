// Some elements of a shard, by which is told whether a buffer has other weights than before
// (is_near()).
#pragma once

#include <vector>

#include "engine/comm/communicator.h"

namespace terse {

// From all over the shard `send`, whose size `kind` has: a part may be all zeros, or alike in all
// shards. By way of the communicator's shadows' room(). Waits for the lane. Throws Error.
std::vector<float> sample_of_shard(Communicator& c, const void* send, const ShadowKind& kind,
                                   Stream lane);

}  // namespace terse
