// Kernel launches of a step on a GPU: one names computes whose bodies lie at equal distances once
// (kernels/device/batch.h).
#pragma once

#include <cstddef>
#include <span>

#include "plan/plan.h"

namespace terse::model {

// Max runs of bodies, and groups of sources, of a launch.
constexpr size_t kMaxRunsOfLaunch = 26, kMaxSourcesOfLaunch = 40;

size_t launches(std::span<const plan::Compute> computes);

}  // namespace terse::model
