// Key of the random numbers of a collective. Data-parallel replicas make the same calls of the same
// elements, each on communicators of their own, as where the first and the last stage of a pipeline
// sum what they have of the embedding; and they must stay replicas: so the key has no communicator.
// Other groups, of hybrid sharding, make the same calls of other elements, and their errors are to
// average out: so the key has a check of what a rank sends, unless contributors to a sum share the
// draw (shared_draw.h), whose errors cancel. It has no call if the same is gathered again: weights
// must not differ between the forward and the backward pass (QSDP, arXiv 2302.02390, gathers them
// for both).
#pragma once

#include "plan/plan.h"

namespace terse::plan {

// The plan of a collective, with a key of what the rank sends in place of the communicator;
// `repeats`: and in place of the call.
Plan with_content_rng_key(Plan plan, bool repeats);

}  // namespace terse::plan
