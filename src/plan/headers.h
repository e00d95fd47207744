// Comparison of calls: before a plan writes to the receive buffer, each rank has seen of its peers
// that they are at the same call (codec/call_header.h).
//
// Packed data says nothing of its call, and may be as long as another call's. So a small message, a
// header, goes ahead of the first message from one rank to another in a call, in the same NCCL
// group; a check follows the step that receives it. If ranks first agree by a native collective, as
// on the parameters of a shared grid, another one ahead of it finds the largest and the smallest
// words of all headers.
#pragma once

#include "plan/plan.h"

namespace terse::plan {

// Plan with the steps of the comparison, and its memory behind the plan's own scratch. Plans that
// pack nothing stay as they are.
Plan with_headers(Plan plan, const Shape& shape);

}  // namespace terse::plan
