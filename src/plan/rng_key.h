// What random numbers go by. Data-parallel replicas make the same calls of the same elements, each
// replica on communicators of its own, as where the first and the last stage of a pipeline sum what
// they have of the embedding; and they must stay replicas. Others, of hybrid sharding, make the
// same calls of other elements, and their errors are to average out. So numbers go by what a rank
// sends, as well as by the call. Not by the call where the same is gathered again: weights must not
// differ between the forward and the backward pass (QSDP, arXiv 2302.02390, gathers them for both).
#pragma once

#include "plan/plan.h"

namespace terse::plan {

// Of a collective: as it is, but that what it draws is drawn by the send buffer. `repeats`: and not
// by the call.
Plan with_content_rng_key(Plan plan, bool repeats);

}  // namespace terse::plan
