// State that the engine keeps for one rank of a communicator, beside the user's ncclComm_t: parts,
// each with its own rules.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "engine/comm/binding.h"
#include "engine/comm/chooser.h"
#include "engine/comm/codebooks.h"
#include "engine/comm/control_buffer.h"
#include "engine/comm/counters.h"
#include "engine/comm/exact_memory.h"
#include "engine/comm/health.h"
#include "engine/comm/identity.h"
#include "engine/comm/mismatch.h"
#include "engine/comm/plans.h"
#include "engine/comm/reductions.h"
#include "engine/comm/reservations.h"
#include "engine/comm/savings.h"
#include "engine/comm/shadows.h"
#include "engine/comm/state.h"
#include "engine/comm/stream_sets.h"
#include "engine/observe/error_probe.h"
#include "engine/observe/meter.h"
#include "terse/terse.h"

namespace terse {

class Communicator : public CommIdentity, public std::enable_shared_from_this<Communicator> {
 public:
  // The settings outlive it.
  Communicator(const Settings& settings, const NcclLibrary& library, Backend& backend,
               ncclComm_t comm);

  Backend& backend;
  // Before the stream sets, whose work reports to it.
  MismatchReport mismatch;
  CommHealth health{*this, mismatch};

  Operators operators;  // made on this communicator
  Plans plans;
  Chooser chooser;
  Counters counters;
  // Declared before the stream sets, whose work refers to their memory: they are destroyed after
  // it.
  Meter meter;
  ErrorProbe error_probe{backend};  // of observed calls
  Savings savings;
  uint64_t observed_calls = 0;
  ExactMemory exact;
  States states;
  Shadows shadows;
  int pauses = 0;                      // if positive, calls by the policy stay native
  std::atomic<bool> announced{false};  // startup line already logged or suppressed (call/banner.h)
  Codebooks codebooks;
  Bindings bindings;
  StreamSets stream_sets;
  Reservations reservations;
  // Buffer of the host all-gathers. Made at the first agreement, while there is memory; null
  // before.
  std::unique_ptr<ControlBuffer> control_buffer;

  const plan::Topology& topology() const { return plans.topology(); }

  // The counters, and the present state beside them.
  terseStats_t current_stats();

  // Waits on a non-blocking communicator until NCCL has enqueued a call, or a group, that gave
  // `result`: what comes next is in order behind it. Throws Error for a failure, or after ten times
  // TERSE_TIMEOUT, for NCCL may wait for a peer that writes a checkpoint.
  void settle(ncclResult_t result, const char* call) const;

  // Poisons the communicator after a call on `stream`, unless that was recorded: recorded calls run
  // when their graph does, and those of a failed graph never run.
  void poison(Stream stream, const std::exception& cause) noexcept;
  // Graph that a stream's calls are recorded in, as the backend names it; 0: none.
  uint64_t recording(Stream stream) const;

  // Blocks until so() is true. Returns false at the limit. Throws meanwhile as
  // health.require_healthy() does.
  bool wait_until(const std::function<bool()>& so,
                  std::optional<std::chrono::steady_clock::time_point> limit = {}) const;

  // Factor of an average: one number on all ranks, however a thread rounds.
  float mean_factor() const;

  // Bytes of memory that keeps its contents from call to call.
  size_t state_bytes() const { return states.bytes() + shadows.bytes() + codebooks.bytes(); }

  // Returns true if it is the first communicator of this process on which the ranks have agreed, or
  // another rank of that one (observe/reporting_comm.h). For a communicator whose ranks have
  // agreed.
  bool is_reporting() const;

  // Takes the levels that fits have brought, and saves them while the communicator is usable, for
  // at most a twentieth of the time.
  void read_levels() noexcept;

  // Keeps the buffer of a failed all-gather, which may still wait there, until the communicator
  // ends.
  void leave(std::unique_ptr<ControlBuffer> own) { left_.push_back(std::move(own)); }

  // Returns true if nothing that was enqueued for it is left, recorded or not. Does not block.
  bool ended() noexcept;

  // Blocks until ended() would be true. Returns false if NCCL has failed, so that its work may wait
  // for ever, or if the communicator is aborted.
  bool drains() noexcept;

  // Returns true while an abandoned all-gather is still queued in NCCL: until all ranks have come,
  // or NCCL's communicator is aborted.
  bool awaits_ranks() const noexcept;
  // Throws Error if awaits_ranks().
  void require_all_came() const;

  // Waits until all calls are done, and reads what was measured. Ignores errors.
  void conclude() noexcept;

 private:
  void save_fitted() const noexcept;

  std::vector<std::unique_ptr<ControlBuffer>> left_;
  std::mutex saving_;     // of saving levels, by the calling thread or any that asks
  bool unsaved_ = false;  // levels came since they were saved
  std::chrono::steady_clock::time_point next_save_{};
};

// Held by whoever works with a communicator, for another thread may abort it meanwhile.
using CommunicatorPointer = std::shared_ptr<Communicator>;

}  // namespace terse
