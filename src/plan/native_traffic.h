// The native collectives of plans.
#pragma once

#include "plan/plan.h"

namespace terse::plan {

// `of_call`: bytes of the call's own elements.
size_t element_bytes(Element element, size_t of_call);

// Traffic of this rank's native collectives.
Traffic native_traffic(const std::vector<Step>& steps, const Shape& shape);

}  // namespace terse::plan
