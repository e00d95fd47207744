// What the engine keeps for one rank of a communicator, beside the user's own ncclComm_t.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "engine/comm/operators.h"
#include "engine/comm/request.h"
#include "engine/comm/state.h"
#include "engine/comm/track.h"
#include "engine/observe/meter.h"
#include "nccl/table.h"
#include "plan/algorithms.h"
#include "plan/chunks.h"
#include "plan/plan.h"
#include "terse/terse.h"

namespace terse {

// The buffers of a call under way: a plan bound to addresses. Reused from call to call.
struct Binding {
  std::vector<std::vector<codec::Combine>> batches;  // by step
  std::vector<codec::Source> sources;                // that the batches refer to
  std::vector<std::vector<Copy>> copies;             // by step
  std::atomic<bool> busy{false};
};

// What identifies a collective's plan on one communicator. Compared as a whole, as all such keys:
// whatever a format or a call has more, a cached plan is never that of another.
struct PlanKey {
  plan::Collective collective;
  int root;
  size_t count;
  codec::Dtype dtype;
  codec::Spec spec;
  plan::Algo algorithm;
  bool verified;  // it is compared with the native result

  auto operator<=>(const PlanKey&) const = default;
};

class Exchange;

// Calls that need memory alike: those of a collective with one root; or all that have none, for
// which the pair is (kAllReduce, -1).
using NeedKind = std::pair<plan::Collective, int>;

// One message of what identifies the plan of a batch of them.
struct MessageKey {
  bool send;
  int peer;
  size_t count, element_bytes;
  std::optional<codec::Spec> spec;  // empty: it travels as it is

  auto operator<=>(const MessageKey&) const = default;
};
using BatchKey = std::pmr::vector<MessageKey>;

using PlanPointer = std::shared_ptr<const plan::Plan>;

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  Communicator(const NcclLibrary& library, Backend& backend, ncclComm_t comm);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const NcclLibrary& library;
  Backend& backend;
  const ncclComm_t comm;
  int rank = 0, ranks = 0;
  plan::Topology topology;  // not known before the ranks have told each other: learn()
  std::string name;         // NCCL's commName; empty: none

  // Agreed by all ranks (agree.h).
  uint64_t ordinal = 0;
  uint64_t identity = 0;  // for reports; 0: not agreed
  std::vector<Scheme> agreed;
  std::vector<std::pair<int, Scheme>> agreed_with;  // one peer, for messages with it
  bool introduced = false;                          // ordinal is agreed, or about to be
  std::optional<uint64_t> number;                   // that rank 0 has taken, to be the ordinal

  Operators operators;       // made on this communicator
  uint64_t sequence = 0;     // of the next compressed call, or batch of messages
  uint64_t collectives = 0;  // the calls of all ranks among them, alike on every rank
  terseStats_t stats{};
  // Both beyond the tracks, whose work refers to their memory.
  Meter meter;
  States states;

  // What its calls are done by.
  std::span<const plan::Algorithm> algorithms = plan::algorithms();

  // What a call on the caller's stream runs on: the communicator's own track, made at the first
  // call, or that of the graph that is being recorded on the stream.
  Track& track_for(Stream caller);

  // Which ranks share a node. Plans depend on it.
  void learn(plan::Topology known);

  // From now on these elements stay exact, of messages that have `elements` in all (exclusion.h).
  void exclude(size_t elements, std::vector<plan::Range> ranges);

  // The counters, and what is known at present beside them.
  terseStats_t current_stats();

  // After a call, or a group with calls on this communicator, that gave `result`: on a non-blocking
  // communicator waits until NCCL has enqueued it, so that what comes next is in order behind it.
  // Throws Error for what went wrong, or when that takes longer than TERSE_TIMEOUT.
  void settle(ncclResult_t result, const char* call) const;

  // What NCCL says that it is at with the communicator: ncclSuccess, ncclInProgress or an error.
  // Empty once it is aborted; NCCL is not asked then, nor while abort() runs.
  std::optional<ncclResult_t> state() const;
  // Fails where state() is an error, or empty.
  void require_sound() const;
  // What waits gives up.
  void abort();

  // How messages name it: `communicator "dp", rank 2 of 8`; by its ordinal where it has no name.
  std::string describe() const;

  // Puts the name before an error's message, unless it is there.
  void sign(Error& error) const;

  // What the ranks have told each other that they have, or that one of them has not (prepare.h).
  std::unique_ptr<Exchange> verdict;
  std::map<NeedKind, size_t> prepared, prepared_to_verify;
  unsigned refusals = 0, skips = 0;  // calls that do without, until the ranks try again

  // The plan for a call, from the cache.
  PlanPointer plan_for(const PlanKey& key);
  PlanPointer plan_for(const BatchKey& key);

  // A binding that is not in use.
  Binding& idle_binding();

  // A queue and memory that a failed exchange leaves, for it may still wait in the one and use the
  // other. They go with the communicator.
  void leave(Stream stream, void* memory) { left_.push_back({stream, memory}); }

  // Whether nothing that was enqueued for it is left, recorded or not. Does not block.
  bool ended() noexcept;

  // Blocks until all calls are done, but for recorded ones; throws what failed in them.
  void synchronize();

  // Blocks until that could be said at once; false: NCCL has failed, and what waits for it may wait
  // for ever.
  bool drains() noexcept;

  // Waits, and keeps what was measured for the process's report. Errors are of no interest.
  void conclude() noexcept;

 private:
  struct Left {
    Stream stream;
    void* memory;
  };

  std::span<const plan::Range> excluded_from(const PlanKey& key) const;

  std::map<PlanKey, PlanPointer> plans_;
  std::map<BatchKey, PlanPointer> batches_;
  std::map<size_t, std::vector<plan::Range>> exclusions_;  // by the elements of the whole message
  std::vector<std::unique_ptr<Binding>> bindings_;
  std::unique_ptr<Track> track_;
  std::vector<std::unique_ptr<Track>> recorded_;
  std::vector<Left> left_;
  mutable std::mutex asking_;  // whether it is aborted, and NCCL of its state
  bool aborted_ = false;
};

// How messages name a communicator: by its name or else by the ordinal that the ranks have agreed
// on.
std::string describe(const std::string& name, std::optional<uint64_t> ordinal, int rank, int ranks);

// Whoever works with a communicator holds it, for another thread may abort it meanwhile.
using CommunicatorPointer = std::shared_ptr<Communicator>;

}  // namespace terse
