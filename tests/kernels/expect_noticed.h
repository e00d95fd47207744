// A test of a kernel's tests: each mistake that its source could have at some line is made there,
// and must be noticed.
#pragma once

#include <functional>
#include <set>
#include <span>

#include "simt/plant.h"

namespace terse::kernels {

// Runs kernels in some way, the same each time, and says whether the results are right. May throw a
// Fault, which says that they are not.
using Trial = std::function<bool(const simt::Planter* planter)>;

// Finds the calls that the trials pass, and plants each mistake at each: made by every thread, by
// one thread, or at one single pass. It must be noticed within the first few trials that pass
// there. Returns the kinds of mistakes that were possible.
std::set<simt::Mistake> expect_noticed(std::span<const Trial> trials);

}  // namespace terse::kernels
