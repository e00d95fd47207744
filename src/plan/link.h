// What a call sends over the link that the ranks of a node share.
#pragma once

#include "plan/algorithms.h"

namespace terse::plan {

// By what all ranks know alike. Of Send and Recv nothing: the others know nothing of them.
Link link_of(const Algorithm& algorithm, const Shape& shape);

}  // namespace terse::plan
