// Calls that all ranks make one after another: as fused kernels in a machine, and by their plans,
// step by step, on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "codec/spec.h"
#include "kernels/device/exchange.h"
#include "oracle.h"
#include "plan/plan.h"
#include "simt/executor.h"

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

using Results = std::vector<std::vector<oracle::Bytes>>;  // by call and rank

struct FusedRun {
  int ranks;
  std::vector<FusedCall> calls;
  uint64_t data_seed = 1;
};

// By the plans, which are not fused.
Results by_plans(const FusedRun& run);

// What the receive buffers have before the calls.
Results before(const FusedRun& run);

struct Schedule {
  uint64_t seed = 0;
  uint32_t blocks = 2;  // of each kernel at most, of which there are some
  const simt::Planter* planter = nullptr;
  bool aborts = false;                          // the hosts of all ranks, each at some time
  uint32_t first_epoch = 0;                     // of all units
  std::function<void(Exchange&)> mistake = {};  // made in each kernel's parameters
};

struct Outcome {
  Results results;
  std::vector<uint32_t> given_up;  // units of each rank
  simt::Traffic traffic = {};      // of all kernels
};

Outcome by_kernels(const FusedRun& run, const Schedule& schedule);

// Runs the first call on one rank after another, whose peers have done their parts already, by
// `run_fused`, or, if it is empty, by the kernels' source. Returns all windows, where the peers'
// areas have what the rank has written alone, and its result: by rank.
using RunFused = std::function<void(const FusedBatch& batch, const simt::Launch& launch)>;
Results one_by_one(const FusedRun& run, const RunFused& run_fused);

}  // namespace terse::kernels
