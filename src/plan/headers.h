// The comparison of calls: before a plan writes to the receive buffer, each rank has seen of its
// peers that they are at the same call (codec/call_header.h).
//
// What is packed says nothing of the call that it is for, and may be as long as that of another
// one. So ahead of the first message from one rank to another in a call goes a small one, its
// header, in the same NCCL group; behind the step that receives it a check. Where the ranks first
// agree on something by a native collective, as on the parameters of a shared grid, another one
// ahead of it finds the largest and the smallest words of all headers.
#pragma once

#include "plan/plan.h"

namespace terse::plan {

// The plan with the steps that this takes, and its memory behind the plan's own scratch. Plans in
// which nothing is packed stay as they are.
Plan with_headers(Plan plan, const Shape& shape);

}  // namespace terse::plan
