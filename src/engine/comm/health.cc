#include "engine/comm/health.h"

namespace terse {
namespace {

using enum Health;

// Indexed by state and event.
constexpr Health kAfter[][4] = {
    // poison          revoke            restore           abort
    {kPoisoned, kRevoked, kHealthy, kAborted},                  // healthy
    {kPoisoned, kRevokedPoisoned, kPoisoned, kAborted},         // poisoned
    {kRevokedPoisoned, kRevoked, kHealthy, kAborted},           // revoked
    {kRevokedPoisoned, kRevokedPoisoned, kPoisoned, kAborted},  // revoked poisoned
    {kAborted, kAborted, kAborted, kAborted},                   // aborted
};
static_assert(std::size(kAfter) == static_cast<size_t>(kAborted) + 1);

std::atomic<bool> g_any_poisoned{false};

ncclResult_t result_of(const codec::Mismatch& mismatch) {
  return mismatch.found != 0 ? ncclInvalidUsage : ncclRemoteError;
}

}  // namespace

Health after(Health health, HealthEvent event) {
  return kAfter[static_cast<size_t>(health)][static_cast<size_t>(event)];
}

ncclResult_t flush_group_job(const NcclTable& nccl, ncclComm_t comm) noexcept {
  ncclResult_t state = ncclSuccess;
  if (const ncclResult_t result = nccl.CommGetAsyncError(comm, &state); result != ncclSuccess)
    return result;
  int ranks = 0;
  return state == ncclSuccess ? nccl.CommCount(comm, &ranks) : state;
}

bool has_poisoned_communicators() noexcept { return g_any_poisoned; }

Health CommHealth::enter(HealthEvent event) const {
  const std::lock_guard lock(mutex_);
  const Health before = health_;
  health_ = after(before, event);
  return before;
}

void CommHealth::require_usable() const {
  notice_mismatch();
  require_open();
}

void CommHealth::require_open() const {
  if (usable()) return;
  const std::lock_guard lock(mutex_);
  switch (health_) {
    case kHealthy:
      return;  // restored meanwhile
    case kAborted:
      identity_.fail(ncclInvalidUsage, "aborted");
    case kRevoked:
    case kRevokedPoisoned:
      identity_.fail(ncclInvalidUsage, "revoked");
    case kPoisoned:
      identity_.fail(cause_->result,
                     "its ranks may be at different calls since one has failed, and it is good for "
                     "nothing but to be aborted: {}",
                     cause_->message);
  }
}

std::optional<ncclResult_t> CommHealth::async_state() const {
  notice_mismatch();
  const std::lock_guard lock(mutex_);
  if (health_ == kAborted) return {};
  if (health_ == kPoisoned) return cause_->result;
  return nccl_state();
}

ncclResult_t CommHealth::ask_nccl(ncclResult_t* state) const {
  const std::lock_guard lock(mutex_);
  if (health_ == kAborted) identity_.fail(ncclInvalidUsage, "aborted");
  return identity_.library.nccl.CommGetAsyncError(identity_.comm, state);
}

void CommHealth::require_healthy() const {
  const std::optional<ncclResult_t> now = async_state();
  require_usable();
  if (*now == ncclInProgress) return;
  identity_.with_context([&] { check(identity_.library, *now, "NCCL's communicator"); });
}

void CommHealth::poison(const std::exception& cause) const noexcept {
  const auto* const error = dynamic_cast<const Error*>(&cause);
  const std::lock_guard lock(mutex_);
  if (cause_) return;
  cause_.emplace(error != nullptr ? error->result : ncclSystemError, std::string());
  health_ = after(health_, HealthEvent::kPoison);
  g_any_poisoned = true;
  try {
    cause_->message = identity_.without_name(cause.what());
  } catch (const std::bad_alloc&) {
    // The cause stays without words.
  }
}

std::optional<ncclResult_t> CommHealth::failure() const {
  notice_mismatch();
  if (usable()) return {};
  const std::lock_guard lock(mutex_);
  const bool reports = health_ == kPoisoned && !async_error_suppressed_;
  return reports ? std::optional(cause_->result) : std::nullopt;
}

bool CommHealth::revoke() {
  const Health before = enter(HealthEvent::kRevoke);
  end_waits();
  return before != kRevoked && before != kRevokedPoisoned;
}

void CommHealth::restore() {
  fail_what_ended();
  enter(HealthEvent::kRestore);
}

void CommHealth::abort() {
  enter(HealthEvent::kAbort);
  end_waits();
}

void CommHealth::fail_what_ended() noexcept {
  if (ended_waits_)
    poison(
        Error(ncclRemoteError, "calls were given up, which the communicator's end was to follow"));
  else
    mismatch_.take_back_end();
}

bool CommHealth::revoked() const {
  const Health now = health_;
  return now == kRevoked || now == kRevokedPoisoned;
}

bool CommHealth::suppress_async_error(bool for_good) {
  if (for_good) {
    end_waits();
    fail_what_ended();  // calls from now on would be without their results, too
  }
  const std::lock_guard lock(mutex_);
  quiesced_ = quiesced_ || for_good;
  return (for_good || cause_) && !std::exchange(async_error_suppressed_, true);
}

void CommHealth::report_async_error() {
  fail_what_ended();
  const std::lock_guard lock(mutex_);
  async_error_suppressed_ = quiesced_ = false;
}

void CommHealth::notice_mismatch() const noexcept {
  const codec::Mismatch* const found = usable() ? mismatch_.found() : nullptr;
  if (found == nullptr) return;
  try {
    poison(Error(result_of(*found), terse::describe(*found)));
  } catch (const std::exception& e) {
    poison(e);
  }
}

void CommHealth::fail_on_mismatch(Stream stream) const noexcept {
  const codec::Mismatch* const found = mismatch_.found();
  if (found == nullptr) return;  // no header has come, for NCCL has failed
  notice_mismatch();
  const auto fail_nccl = [&](const char* text) {
    (void)identity_.library.host.CommFail(identity_.comm, stream, ncclInvalidUsage, text);
  };
  try {
    const std::string text = identity_.about(terse::describe(*found));
    identity_.log(LogLevel::kError, "{}", text);
    fail_nccl(text.c_str());
  } catch (const std::exception&) {
    fail_nccl("the ranks are at different calls");
  }
}

bool CommHealth::waits_in_vain() const {
  const std::lock_guard lock(mutex_);
  if (has_left()) return true;
  const ncclResult_t state = nccl_state();
  return state != ncclSuccess && state != ncclInProgress;
}

void CommHealth::fail_in_wait(Stream stream, int gone) const noexcept {
  const NcclLibrary& library = identity_.library;
  const auto fail = [&](ncclComm_t comm, const char* text) {
    (void)library.host.CommFail(comm, stream, ncclRemoteError, text);
  };
  std::unique_lock lock(mutex_);
  if (has_left()) {
    fail(nullptr, "the communicator was aborted, or revoked");
    lock.unlock();
    return poison(Error(ncclRemoteError, "a call was given up in the communicator's revocation"));
  }
  if (mismatch_.found() != nullptr) {
    lock.unlock();
    return fail_on_mismatch(stream);
  }
  if (gone >= 0)
    return fail(identity_.comm,
                fmt::format("rank {} has left, for which a call waited", gone).c_str());
  const char* const cause = library.nccl.GetLastError(identity_.comm);
  fail(identity_.comm, cause != nullptr ? cause : "");
}

bool CommHealth::has_left() const { return health_ == kAborted || revoked() || quiesced_; }

ncclResult_t CommHealth::nccl_state() const {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = identity_.library.nccl.CommGetAsyncError(identity_.comm, &state);
  return result == ncclSuccess ? state : result;
}

void CommHealth::flush_group_job() const noexcept {
  const std::lock_guard lock(mutex_);
  if (health_ != kAborted) (void)terse::flush_group_job(identity_.library.nccl, identity_.comm);
}

}  // namespace terse
