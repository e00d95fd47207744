// Calls that all ranks make one after another, and what their plans, which are not fused, give for
// them, step by step on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory_resource>
#include <string>
#include <vector>

#include "codec/spec.h"
#include "oracle.h"
#include "plan/plan.h"
#include "support.h"

namespace terse::kernels {

struct FusedCall {
  plan::Collective collective;
  const char* algorithm;
  codec::Spec spec;
  codec::Dtype dtype = codec::Dtype::kFloat32;
  size_t count = 0;  // of the collective's
  bool in_place = false, own_exact = false;
  size_t offset = 0;  // of all buffers, in elements, from aligned memory
  bool average = false;
  float premultiply = 1;
};

// The kinds of calls that are fused, where the largest message between two ranks has so many
// elements.
constexpr size_t kFusedKinds = 6;
FusedCall call_of(size_t kind, const codec::Spec& spec, codec::Dtype dtype, size_t count,
                  int ranks);

struct FusedRun {
  int ranks;
  std::vector<FusedCall> calls;
  uint64_t data_seed = 1;
};

std::string describe(const FusedRun& run);

// Some calls of a few thousand elements at most on 2 to 8 ranks. `specs(block)`: formats to choose
// from; `dtypes`: types of those that are not of 16 bits themselves.
using Specs = std::function<std::vector<codec::Spec>(size_t block)>;
FusedRun some_run(codec::Random& random, const Specs& specs,
                  const std::vector<codec::Dtype>& dtypes);

using Results = std::vector<std::vector<oracle::Bytes>>;  // by call and rank

Results by_plans(const FusedRun& run);

// What the receive buffers have before the calls.
Results before(const FusedRun& run);

// Says which element of an aborted run is neither as its call gives it nor as it was before; empty:
// none. Calls whose copies the host does count as right.
std::string find_torn(const FusedRun& run, const Results& found, const Results& expected);

}  // namespace terse::kernels
