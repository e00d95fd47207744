// What is gathered again, unchanged, is the same again: weights must not differ between the forward
// and the backward pass (QSDP, arXiv 2302.02390, gathers them for both). So where an AllGather
// draws random numbers, it does by what is in the shard, not by the call.
#pragma once

#include "plan/plan.h"

namespace terse::plan {

// Of an AllGather that quantizes this rank's shard from the send buffer.
Plan drawn_by_content(Plan plan, const Shape& shape);

}  // namespace terse::plan
