// What the engine keeps for one rank of a communicator, beside the user's own ncclComm_t: parts,
// each with its own rules.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/comm/agreed.h"
#include "engine/comm/binding.h"
#include "engine/comm/chooser.h"
#include "engine/comm/codebooks.h"
#include "engine/comm/control_buffer.h"
#include "engine/comm/counters.h"
#include "engine/comm/exact_memory.h"
#include "engine/comm/mismatch.h"
#include "engine/comm/plans.h"
#include "engine/comm/reductions.h"
#include "engine/comm/reservations.h"
#include "engine/comm/shadows.h"
#include "engine/comm/state.h"
#include "engine/comm/stream_sets.h"
#include "engine/observe/meter.h"
#include "nccl/table.h"
#include "policy/settings.h"
#include "terse/terse.h"

namespace terse {

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // The settings outlive it.
  Communicator(const Settings& settings, const NcclLibrary& library, Backend& backend,
               ncclComm_t comm);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const Settings& settings;
  const NcclLibrary& library;
  Backend& backend;
  const ncclComm_t comm;
  const int ranks, rank;
  std::string name;       // NCCL's commName; empty: none
  std::string made_from;  // what was said of the one that it was split or has grown from

  Agreed agreed;
  Operators operators;  // made on this communicator
  Plans plans;
  Chooser chooser;
  Counters counters;
  // Beyond the tracks, whose work refers to their memory.
  Meter meter;
  ExactMemory exact;
  MismatchReport mismatch;  // by which it is refused from then on
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

  // What NCCL says that it is at with the communicator: ncclSuccess, ncclInProgress or an error; or
  // what has invalidated it. Empty once it is aborted; NCCL is not asked then, nor while abort()
  // runs.
  std::optional<ncclResult_t> state() const;
  // NCCL's own answer to ncclCommGetAsyncError. By this and state() one thread asks at a time: that
  // function also frees what is over, and two threads in it would both. Fails once it is aborted.
  ncclResult_t ask(ncclResult_t* state) const;
  // The function below, unless it is aborted: before a thread ends whose calls are all enqueued.
  void end_job() const noexcept;
  // Fails where state() is an error, or empty.
  void require_healthy() const;
  // What waits gives up.
  void abort();
  // The same before NCCL's communicator is revoked: calls are refused as NCCL refuses them, and
  // what has invalidated it, before or after, is not told. What is made of it NCCL decides. Whether
  // that is new.
  bool revoke();
  // Where NCCL has not revoked it.
  void take_back_revoke();
  bool revoked() const;

  // After a failure on this rank alone, as far as it knows, the ranks may be at different calls,
  // and the next ones would take each other's data for their own. So there are none: from now on
  // the communicator fails with `cause`, until it is destroyed or aborted. The first cause stays.
  void invalidate(const std::exception& cause) noexcept;
  // At a mismatch that a host has found in a call on `stream`: NCCL's communicator fails, on all
  // ranks, and the stream does.
  void fail_on_mismatch(Stream stream) const noexcept;
  // The same after a call on `stream`, unless it was recorded: such calls run when their graph
  // does, and those of one that failed never do.
  void poison(Stream stream, const std::exception& cause) noexcept;
  // What `cause` was; empty: it is not invalid, or revoked, or silent about it.
  std::optional<ncclResult_t> failure() const;
  // The program goes on with what is made of it, and what NCCL says is about that: what has
  // invalidated it, or with `for_good` still may, only its calls tell from now on. Said before NCCL
  // makes that, whether it is new, and taken back where NCCL does not.
  bool suppress_async_error(bool for_good);
  void report_async_error();
  // Fails where it is aborted, revoked or invalidated. Costs nothing and does not ask NCCL.
  void require_usable() const;
  // The same, but for a mismatch that is not noticed yet: a call that has begun to be enqueued is
  // enqueued to its end, for which other ranks wait.
  void require_open() const;

  // The graph that a stream's calls are recorded in, or 0; as the backend has it.
  uint64_t recording(Stream stream) const;

  // Blocks until that is so; false: not by the limit. Fails as require_healthy() does meanwhile.
  bool wait_until(const std::function<bool()>& so,
                  std::optional<std::chrono::steady_clock::time_point> limit = {}) const;

  // Not what a forked child has of its parent, who says it all.
  bool is_of_this_process() const { return process_ == getpid(); }

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

  // How messages name it: `communicator "dp", rank 2 of 8`; by its ordinal where it has no name.
  std::string describe() const;
  // A message with the name before it, unless it is there.
  std::string about(std::string text) const;

  // Makes it an error about this communicator.
  void add_context(Error& error) const;

  // Throws an Error that names it.
  template <class... Args>
  [[noreturn]] void fail(ncclResult_t result, fmt::format_string<Args...> format,
                         Args&&... args) const {
    Error error(result, fmt::format(format, std::forward<Args>(args)...));
    add_context(error);
    throw error;
  }

  // A line about it.
  template <class... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (level <= log_level())
      write_log(level, rank, about(fmt::format(format, std::forward<Args>(args)...)));
  }

  // Runs a part of the communicator's work, whose errors name it.
  template <class Part>
  auto with_context(const Part& part) const {
    try {
      return part();
    } catch (Error& e) {
      add_context(e);
      throw;
    }
  }

  // The same of a part of calls, whose errors also end with what those are, as `what` says.
  template <class What, class Part>
  auto with_context(const What& what, const Part& part) const {
    return with_context([&] {
      try {
        return part();
      } catch (Error& e) {
        e.message += fmt::format(" ({})", what());
        throw;
      }
    });
  }

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
  std::string without_name(std::string text) const;
  void refuse(const std::exception& cause) const noexcept;
  void notice_mismatch() const noexcept;
  void save_fitted() const noexcept;

  std::vector<std::unique_ptr<ControlBuffer>> left_;
  const pid_t process_ = getpid();
  mutable std::mutex asking_;  // whether it is one of these, and NCCL of its state
  bool aborted_ = false, revoked_ = false;
  mutable std::optional<Error> invalid_;
  bool silent_ = false;
  std::mutex saving_;     // levels, of the thread that has calls made and of any that asks
  bool unsaved_ = false;  // levels have come since they were saved
  std::chrono::steady_clock::time_point next_save_{};
  mutable std::atomic<bool> usable_{true};  // neither aborted nor revoked nor invalid
};

// What NCCL says of the communicator; and where that is success, the job of its group is ended.
// NCCL 2.19 to 2.26 keep the job of a non-blocking group in memory of the thread that has called,
// and its communicators point there until a function other than ncclCommGetAsyncError is called on
// them (ncclCommEnsureReady in init.cc).
ncclResult_t end_job(const NcclTable& nccl, ncclComm_t comm) noexcept;

// Whether there ever was one in this process.
bool has_invalid_communicators() noexcept;

// How messages name a communicator: by its name or else by the ordinal that the ranks have agreed
// on.
std::string describe(const std::string& name, std::optional<uint64_t> ordinal, int rank, int ranks);

// Whoever works with a communicator holds it, for another thread may abort it meanwhile.
using CommunicatorPointer = std::shared_ptr<Communicator>;

}  // namespace terse
