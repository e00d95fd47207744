// What the engine keeps for one rank of a communicator, beside the user's own ncclComm_t.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "engine/meter.h"
#include "engine/request.h"
#include "engine/track.h"
#include "nccl/table.h"
#include "plan/plan.h"
#include "terse/terse.h"

namespace terse {

// The buffers of a call under way: a plan bound to addresses. Reused from call to call.
struct Binding {
  std::vector<std::vector<codec::Combine>> batches;  // by step
  std::vector<codec::Source> sources;                // that the batches refer to
  std::atomic<bool> busy{false};
};

// What identifies a plan on one communicator.
struct PlanKey {
  plan::Collective collective;
  size_t count;
  codec::Dtype dtype;
  codec::Spec spec;
  AlgorithmChoice algorithm;

  auto tie() const {
    return std::tuple(collective, count, dtype, spec.family, spec.bits, spec.block, algorithm);
  }
  bool operator<(const PlanKey& other) const { return tie() < other.tie(); }
};

class Communicator {
 public:
  Communicator(const NcclLibrary& library, Backend& backend, ncclComm_t comm);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const NcclLibrary& library;
  Backend& backend;
  const ncclComm_t comm;
  int rank = 0, ranks = 0;

  // Agreed by all ranks (agree.h).
  uint64_t ordinal = 0;
  uint64_t identity = 0;  // for reports; 0: not agreed
  std::vector<Scheme> agreed;
  bool introduced = false;         // ordinal is agreed, or about to be
  std::optional<uint64_t> number;  // that rank 0 has taken, to be the ordinal

  uint64_t sequence = 0;  // of the next compressed call
  terseStats_t stats{};
  Meter meter;  // beyond the tracks, whose work refers to its memory

  // What a call on the caller's stream runs on: the communicator's own track, made at the first
  // call, or that of the graph that is being recorded on the stream.
  Track& track_for(Stream caller);

  // "rank 2 of 8": how messages name it.
  std::string describe() const;

  // Puts the name before an error's message, unless it is there.
  void sign(Error& error) const;

  // The plan for a call, from the cache.
  const plan::Plan& plan_for(const PlanKey& key);

  // A binding that is not in use.
  Binding& idle_binding();

  // Blocks until all calls are done, but for recorded ones; throws what failed in them.
  void synchronize();

  // Waits, and keeps what was measured for the process's report. Errors are of no interest.
  void conclude() noexcept;

 private:
  std::map<PlanKey, plan::Plan> plans_;
  std::vector<std::unique_ptr<Binding>> bindings_;
  std::unique_ptr<Track> track_;
  std::vector<std::unique_ptr<Track>> recorded_;
};

// The engine's state of `comm`, made at its first use. A communicator that was destroyed without
// terseCommRelease and whose address another one has taken is recognised where rank or size differ.
Communicator& communicator(ncclComm_t comm);

// Null where there is none.
Communicator* find_communicator(ncclComm_t comm);

// Of those that there are, also while the program exits.
void for_each_communicator(const std::function<void(Communicator&)>& visit);

// Frees the state, after waiting for the lanes; nothing where there is none. With `abandon`, errors
// of what is still queued are of no interest.
void release_communicator(ncclComm_t comm, bool abandon);

}  // namespace terse
