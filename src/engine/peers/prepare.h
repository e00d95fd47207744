// Preparation of compressed calls before anything is sent; if one rank cannot, all call NCCL
// instead.
#pragma once

#include "engine/run/job.h"

namespace terse {

// Makes streams and scratch memory for the jobs. If a communicator needs more than ever before, its
// ranks exchange whether they have it, which blocks the caller; if one has not, the communicator's
// jobs are taken out of `jobs` on every rank alike, and returned. Later calls try again, ever more
// rarely. Leaves messages and recorded calls as they are. Throws Error.
Jobs prepare(Jobs& jobs);

}  // namespace terse
