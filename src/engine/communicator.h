// What the engine keeps for one rank of a communicator, beside the user's own ncclComm_t.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/request.h"
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

// Scratch memory that grows, and is freed with its owner.
class Scratch {
 public:
  explicit Scratch(Backend& backend) : backend_(backend) {}
  ~Scratch() { backend_.release(memory_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  char* data() const { return static_cast<char*>(memory_); }
  size_t size() const { return size_; }
  bool holds(size_t bytes) const { return bytes <= size_; }
  void grow(size_t bytes);

 private:
  Backend& backend_;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

class Communicator {
 public:
  Communicator(const NcclLibrary& library, Backend& backend, ncclComm_t comm);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const NcclLibrary& library;
  Backend& backend;
  const ncclComm_t comm;
  int rank = 0, ranks = 0;

  // Agreed by all ranks (agree.h).
  uint64_t ordinal = 0;
  std::vector<Scheme> agreed;
  bool introduced = false;  // ordinal is agreed, or about to be

  uint64_t sequence = 0;  // of the next compressed call
  terseStats_t stats{};

  std::array<Stream, plan::kLanes> lanes{};  // null until the first compressed call
  Scratch scratch;

  // Makes what a compressed call needs beside scratch.
  void prepare();

  // "rank 2 of 8": how messages name it.
  std::string describe() const;

  // The plan for a call, from the cache.
  const plan::Plan& plan_for(const PlanKey& key);

  // A binding that is not in use.
  Binding& idle_binding();

  // The event of step `index` of whichever plan runs; re-recorded from call to call.
  Event step_event(size_t index);

  // Marks where a caller's stream stands, and where the last call ends.
  Event caller_event() const { return caller_; }
  Event finished_event() const { return finished_; }

  // Blocks until all lanes are empty; throws what failed in them.
  void synchronize();

 private:
  std::map<PlanKey, plan::Plan> plans_;
  std::vector<std::unique_ptr<Binding>> bindings_;
  std::vector<Event> step_events_;
  Event caller_ = nullptr, finished_ = nullptr;
};

// The engine's state of `comm`, made at its first use. A communicator that was destroyed without
// terseCommRelease and whose address another one has taken is recognised where rank or size differ.
Communicator& communicator(ncclComm_t comm);

// Null where there is none.
Communicator* find_communicator(ncclComm_t comm);

// Frees the state, after waiting for the lanes; nothing where there is none. With `abandon`, errors
// of what is still queued are of no interest.
void release_communicator(ncclComm_t comm, bool abandon);

}  // namespace terse
