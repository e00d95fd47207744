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
#include "engine/comm/comm_memory.h"
#include "engine/comm/comm_metrics.h"
#include "engine/comm/comm_routing.h"
#include "engine/comm/health.h"
#include "engine/comm/identity.h"
#include "engine/comm/mismatch.h"
#include "terse/terse.h"

namespace terse {

class Communicator : public CommIdentity, public std::enable_shared_from_this<Communicator> {
 public:
  // The settings outlive it.
  Communicator(const Settings& settings, const NcclLibrary& library, Backend& backend,
               ncclComm_t comm);

  Backend& backend;

  MismatchReport& mismatch() { return mismatch_; }
  CommHealth& health() { return health_; }
  const CommHealth& health() const { return health_; }
  CommRouting& routing() { return routing_; }
  const CommRouting& routing() const { return routing_; }
  CommMetrics& metrics() { return metrics_; }
  const CommMetrics& metrics() const { return metrics_; }
  CommMemory& memory() { return memory_; }
  const CommMemory& memory() const { return memory_; }

  const plan::Topology& topology() const { return routing_.plans().topology(); }

  // Profile to predict calls by: that of the settings, or the built-in one nearest to the machine.
  // Null: neither is there.
  const model::Profile* profile() const {
    return settings.profile ? &*settings.profile : routing_.nearest_profile();
  }

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
  // health().require_healthy() does.
  bool wait_until(const std::function<bool()>& so,
                  std::optional<std::chrono::steady_clock::time_point> limit = {}) const;

  // Factor of an average: one number on all ranks, however a thread rounds.
  float mean_factor() const;

  // Returns true if it is the first communicator of this process on which the ranks have agreed, or
  // another rank of that one (observe/reporting_comm.h). For a communicator whose ranks have
  // agreed.
  bool is_reporting() const;

  // Takes the levels that fits have brought, and saves them while the communicator is usable, for
  // at most a twentieth of the time.
  void read_levels() noexcept;

  // Returns true if nothing that was enqueued for it is left, recorded or not. Does not block.
  bool ended() noexcept;

  // Blocks until ended() would be true. Returns false if NCCL has failed, so that its work may wait
  // for ever, or if the communicator is aborted.
  bool drains() noexcept;

  // Throws Error if an abandoned all-gather is still queued in NCCL.
  void require_all_came() const;

  // Returns true once: for the startup line, which is logged or suppressed by then.
  bool take_announcement() { return !announced_.exchange(true); }
  bool announced() const { return announced_; }

  // Waits until all calls are done, and reads what was measured. Ignores errors.
  void conclude() noexcept;

 private:
  void save_fitted() const noexcept;

  // Last, and so destroyed first: the memory, whose streams' work reports to the rest.
  MismatchReport mismatch_;
  CommHealth health_;
  CommRouting routing_;
  CommMetrics metrics_;
  std::atomic<bool> announced_{false};
  std::mutex saving_;     // of saving levels, by the calling thread or any that asks
  bool unsaved_ = false;  // levels came since they were saved
  std::chrono::steady_clock::time_point next_save_{};
  CommMemory memory_;
};

// Held by whoever works with a communicator, for another thread may abort it meanwhile.
using CommunicatorPointer = std::shared_ptr<Communicator>;

}  // namespace terse
