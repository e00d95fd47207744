// AllGather that leaves a rank's own shard as it is, where the others get what was sent of it: an
// optimizer may keep its weights in that shard, as Megatron-LM's does in fp32, or write them back
// from the gathered ones, as FSDP's summon_full_params() does.
#pragma once

#include "plan/plan.h"

namespace terse::plan {

// A plan of an AllGather, whose computes bring one shard each to the receive buffer.
Plan own_shard_kept(Plan plan, const Shape& shape);

}  // namespace terse::plan
