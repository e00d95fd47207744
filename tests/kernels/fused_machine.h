// Fused calls in a machine of the SIMT executor.
#pragma once

#include <optional>

#include "fused_calls.h"
#include "kernels/device/exchange.h"
#include "simt/executor.h"

namespace terse::kernels {

struct Schedule {
  uint64_t seed = 0;
  uint32_t blocks = 2;  // of each kernel at most, of which there are some
  const simt::Planter* planter = nullptr;
  bool aborts = false;                  // the hosts of all ranks, each at some time
  uint32_t first_epoch = 0;             // of all units
  std::optional<size_t> in_steps = {};  // rank that does the last call in steps
  // Rank that ends at some time, and has left then: as its peers' windows say, or their hosts.
  std::optional<size_t> killed = {};
  bool hosts_know = false;
  std::function<void(Exchange&)> mistake = {};  // made in each kernel's parameters
};

struct Outcome {
  Results results;
  std::vector<bool> given_up;            // by rank
  std::vector<codec::Mismatch> reports;  // of each rank
  simt::Traffic traffic = {};            // of all kernels
};

Outcome by_kernels(const FusedRun& run, const Schedule& schedule);

// Header of a run's call on a rank.
codec::CallHeader header_of(size_t number, int rank);
// Makes it the one of an exchange.
void name(Exchange& exchange, const codec::CallHeader& call);

// Runs the first call on one rank after another, whose peers have done their parts already, by
// `run_fused`, or, if it is empty, by the kernels' source. Returns all windows, where the peers'
// areas have what the rank has written alone, and its result: by rank.
using RunFused = std::function<void(const FusedBatch& batch, const simt::Launch& launch)>;
Results one_by_one(const FusedRun& run, const RunFused& run_fused);

}  // namespace terse::kernels
