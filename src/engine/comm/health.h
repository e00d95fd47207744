// Health of a communicator: one state, and a table of the transitions between states.
//
//                     poison            revoke            restore    abort
//   healthy           poisoned          revoked           -          aborted
//   poisoned          -                 revoked poisoned  -          aborted
//   revoked           revoked poisoned  -                 healthy    aborted
//   revoked poisoned  -                 -                 poisoned   aborted
//   aborted           -                 -                 -          -
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>

#include "engine/comm/identity.h"
#include "engine/comm/mismatch.h"

namespace terse {

enum class Health : uint8_t { kHealthy, kPoisoned, kRevoked, kRevokedPoisoned, kAborted };
enum class HealthEvent : uint8_t { kPoison, kRevoke, kRestore, kAbort };
Health after(Health health, HealthEvent event);

class CommHealth {
 public:
  // Both outlive it.
  CommHealth(const CommIdentity& identity, const MismatchReport& mismatch)
      : identity_(identity), mismatch_(mismatch) {}

  // Returns true if calls may be made, by a load alone.
  bool usable() const { return health_.load(std::memory_order_acquire) == Health::kHealthy; }
  // Throws Error if the communicator is aborted, revoked or poisoned; does not ask NCCL.
  void require_usable() const;
  // require_usable() that ignores a mismatch not yet noticed: a call that has begun to be enqueued
  // is enqueued to its end, for which other ranks wait.
  void require_open() const;

  // NCCL's state (ncclSuccess, ncclInProgress or an error), or the error that poisoned the
  // communicator. Empty once it is aborted; NCCL is not asked then, nor while abort() runs.
  std::optional<ncclResult_t> async_state() const;
  // Answers ncclCommGetAsyncError as NCCL does. One thread at a time asks NCCL for its state, for
  // that function also frees what has ended. Throws Error once the communicator is aborted.
  ncclResult_t ask_nccl(ncclResult_t* state) const;
  // Throws Error if async_state() is an error or empty.
  void require_healthy() const;

  // Refuses all calls from now on, as ranks may be at different calls after a failure on this rank
  // alone, and would take each other's data for their own. Keeps the first cause.
  void poison(const std::exception& cause) const noexcept;
  // Error that poisoned the communicator. Empty: it is not poisoned, or revoked, or its async error
  // is suppressed.
  std::optional<ncclResult_t> failure() const;

  // Refuses calls as NCCL does on a revoked communicator. Returns true if it was not revoked
  // before.
  bool revoke();
  // Takes a revoke back that NCCL has refused.
  void restore();
  bool revoked() const;
  // Ends all waits; NCCL is not asked any more.
  void abort();

  // Hides the poison's error from ncclCommGetAsyncError, as the program goes on with what NCCL
  // makes of the communicator; calls still fail. `for_good`: also an error that comes later.
  // Returns true if that is new.
  bool suppress_async_error(bool for_good);
  void report_async_error();

  // Returns true if what a call waits for may never come: the communicator is aborted, revoked or
  // shrunk without waiting, or NCCL has failed.
  bool waits_in_vain() const;
  // Fails the stream of a call that has waited in vain, or whose peers are at other calls, and
  // NCCL's communicator; but if the program has ended the wait, poisons it, for it may be restored.
  // `gone`: rank that has left, or -1.
  void fail_in_wait(Stream stream, int gone) const noexcept;

  // Fails NCCL's communicator and the stream, at a mismatch that a host has found in a call there.
  void fail_on_mismatch(Stream stream) const noexcept;

  // Ends the job of NCCL's group, unless the communicator is aborted: before the end of a thread
  // whose calls are all enqueued (flush_group_job()).
  void flush_group_job() const noexcept;

 private:
  Health enter(HealthEvent event) const;  // returns the state before
  void notice_mismatch() const noexcept;
  // Ends the waits of calls under way; and poisons the communicator if the program takes that back,
  // for calls are without their results.
  void end_waits() { ended_waits_ = mismatch_.end_waits(); }
  void fail_what_ended() noexcept;
  // Both with the mutex held: whether the program has ended what is under way; and NCCL's state.
  bool has_left() const;
  ncclResult_t nccl_state() const;

  const CommIdentity& identity_;
  const MismatchReport& mismatch_;
  mutable std::mutex mutex_;  // of transitions, and of asking NCCL
  mutable std::atomic<Health> health_{Health::kHealthy};
  mutable std::optional<Error> cause_;  // of the poison
  bool async_error_suppressed_ = false;
  std::atomic<bool> ended_waits_{false};
  bool quiesced_ = false;  // the program goes on without what is under way
};

// Asks NCCL for the communicator's state, and ends the job of its group if that is success:
// NCCL 2.19 to 2.26 keep the job of a non-blocking group in memory of the thread that made it, and
// its communicators point there until a function other than ncclCommGetAsyncError is called on them
// (ncclCommEnsureReady in init.cc).
ncclResult_t flush_group_job(const NcclTable& nccl, ncclComm_t comm) noexcept;

// Returns true if a communicator of this process was ever poisoned.
bool has_poisoned_communicators() noexcept;

}  // namespace terse
