// A case on the host's codec, and on the kernels on the SIMT executor: what is in each target then.
// Memory outside of what a piece may touch is out of bounds.
#pragma once

#include <vector>

#include "cases.h"
#include "simt/plant.h"

namespace terse::kernels {

std::vector<codec::Bytes> on_host(const Case& c);

// `random`: how many thread blocks there are, and what the executor draws. `planter`: of mistakes.
std::vector<codec::Bytes> on_kernels(const Case& c, codec::Random& random,
                                     const simt::Planter* planter = nullptr);

}  // namespace terse::kernels
