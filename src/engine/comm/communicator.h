// What the engine keeps for one rank of a communicator, beside the user's own ncclComm_t: parts,
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
#include "engine/comm/shadows.h"
#include "engine/comm/state.h"
#include "engine/comm/stream_sets.h"
#include "engine/observe/meter.h"
#include "terse/terse.h"

namespace terse {

class Communicator : public CommIdentity, public std::enable_shared_from_this<Communicator> {
 public:
  // The settings outlive it.
  Communicator(const Settings& settings, const NcclLibrary& library, Backend& backend,
               ncclComm_t comm);

  Backend& backend;
  // Before the streams, whose work reports to it.
  MismatchReport mismatch;
  CommHealth health{*this, mismatch};

  Operators operators;  // made on this communicator
  Plans plans;
  Chooser chooser;
  Counters counters;
  // Beyond the tracks, whose work refers to their memory.
  Meter meter;
  ExactMemory exact;
  States states;
  Shadows shadows;
  int pauses = 0;                      // where there are any, calls by the policy stay native
  std::atomic<bool> announced{false};  // its line has been said, or is not to be (call/banner.h)
  Codebooks codebooks;
  Bindings bindings;
  StreamSets stream_sets;
  Reservations reservations;
  // By which the ranks tell each other what they can do: made when there is memory, at the first
  // agreement. Null before that.
  std::unique_ptr<ControlBuffer> control_buffer;

  const plan::Topology& topology() const { return plans.topology(); }

  // The counters, and what is known at present beside them.
  terseStats_t current_stats();

  // After a call, or a group with calls on this communicator, that gave `result`: on a non-blocking
  // communicator waits until NCCL has enqueued it, so that what comes next is in order behind it.
  // Throws Error for what went wrong, or when that takes longer than ten times TERSE_TIMEOUT: NCCL
  // may wait for a peer, which may write a checkpoint.
  void settle(ncclResult_t result, const char* call) const;

  // Poisons it after a call on `stream`, unless that was recorded: recorded calls run when their
  // graph does, and those of a graph that failed never do.
  void poison(Stream stream, const std::exception& cause) noexcept;
  // The graph that a stream's calls are recorded in, or 0; as the backend has it.
  uint64_t recording(Stream stream) const;

  // Blocks until that is so; false: not by the limit. Throws meanwhile as health.require_healthy()
  // does.
  bool wait_until(const std::function<bool()>& so,
                  std::optional<std::chrono::steady_clock::time_point> limit = {}) const;

  // What a sum is multiplied by for the average: one number on all ranks, however a thread rounds.
  float mean_factor() const;

  // Memory held that keeps what it has from call to call.
  size_t state_bytes() const { return states.bytes() + shadows.bytes() + codebooks.bytes(); }

  // Whether it is the first communicator of this process on which the ranks have agreed, or another
  // rank of that one (observe/reporting_comm.h). For one whose ranks have agreed.
  bool is_reporting() const;

  // Takes the levels that have come from fits, and saves them as long as it is usable, so often
  // that at most a twentieth of the time is spent on that.
  void read_levels() noexcept;

  // What a failed exchange leaves, for it may still wait there. It goes with the communicator.
  void leave(std::unique_ptr<ControlBuffer> own) { left_.push_back(std::move(own)); }

  // Whether nothing that was enqueued for it is left, recorded or not. Does not block.
  bool ended() noexcept;

  // Blocks until that could be said at once; false: NCCL has failed, and what waits for it may wait
  // for ever; or it is aborted, and NCCL is not asked any more.
  bool drains() noexcept;

  // Whether NCCL still has what this side asked of it for the ranks to meet, and gave up: it ends
  // when all ranks have come, or NCCL's communicator is aborted.
  bool awaits_ranks() const noexcept;
  // Throws Error where it does.
  void require_all_came() const;

  // Waits until all calls are done, and reads what was measured. Errors are of no interest.
  void conclude() noexcept;

 private:
  void save_fitted() const noexcept;

  std::vector<std::unique_ptr<ControlBuffer>> left_;
  std::mutex saving_;     // levels, of the thread that has calls made and of any that asks
  bool unsaved_ = false;  // levels have come since they were saved
  std::chrono::steady_clock::time_point next_save_{};
};

// Whoever works with a communicator holds it, for another thread may abort it meanwhile.
using CommunicatorPointer = std::shared_ptr<Communicator>;

}  // namespace terse
