#include "engine/comm/communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "codec/float_mode.h"
#include "engine/comm/shape.h"
#include "engine/observe/levels_file.h"
#include "engine/observe/reporting_comm.h"

namespace terse {
namespace {

using Clock = std::chrono::steady_clock;

int ranks_of(const NcclLibrary& library, ncclComm_t comm) {
  int ranks = 0;
  check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
  return ranks;
}

int rank_in(const NcclLibrary& library, ncclComm_t comm) {
  int rank = 0;
  check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
  return rank;
}

std::atomic<bool> g_any_invalid{false};

}  // namespace

ncclResult_t end_job(const NcclTable& nccl, ncclComm_t comm) noexcept {
  ncclResult_t state = ncclSuccess;
  if (const ncclResult_t asked = nccl.CommGetAsyncError(comm, &state); asked != ncclSuccess)
    return asked;
  int ranks = 0;
  return state == ncclSuccess ? nccl.CommCount(comm, &ranks) : state;
}

bool has_invalid_communicators() noexcept { return g_any_invalid; }

Communicator::Communicator(const Settings& settings, const NcclLibrary& library, Backend& backend,
                           ncclComm_t comm)
    : settings(settings),
      library(library),
      backend(backend),
      comm(comm),
      ranks(ranks_of(library, comm)),
      rank(rank_in(library, comm)),
      plans(rank, ranks, chunk_policy_of(settings, backend.chunk_policy())),
      meter(backend, settings),
      exact(backend),
      mismatch(backend),
      states(backend),
      shadows(backend, ranks),
      codebooks(backend, settings),
      stream_sets(backend) {}

terseStats_t Communicator::current_stats() {
  terseStats_t current = counters.stats();
  current.nodes = static_cast<size_t>(plans.topology_now().nodes());
  current.state_bytes = state_bytes();
  current.delta_calls = shadows.differences();
  current.delta_unchanged = shadows.unchanged();
  current.delta_full[TERSE_FULL_FIRST] = shadows.in_full(InFull::kFirst);
  current.delta_full[TERSE_FULL_OTHERS] = shadows.in_full(InFull::kOthers);
  current.delta_full[TERSE_FULL_EVERY] = shadows.in_full(InFull::kEvery);
  current.delta_full[TERSE_FULL_MEMORY] = shadows.in_full(InFull::kMemory);
  current.delta_full[TERSE_FULL_NONFINITE] = shadows.in_full(InFull::kNonfinite);
  meter.collect();
  meter.add_to(current);
  return current;
}

void Communicator::settle(ncclResult_t result, const char* call) const {
  const auto longest = std::chrono::seconds(10 * settings.timeout_seconds);
  const auto limit = Clock::now() + longest;
  while (result == ncclInProgress) {
    const std::optional<ncclResult_t> now = state();
    require_usable();
    result = *now;
    if (result != ncclInProgress) break;
    if (Clock::now() > limit)
      fail(ncclSystemError, "{} was not enqueued within {} s (10 times TERSE_TIMEOUT)", call,
           longest.count());
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  check(library, result, call);
}

std::optional<ncclResult_t> Communicator::state() const {
  notice_mismatch();
  const std::lock_guard lock(asking_);
  if (aborted_) return {};
  if (invalid_ && !revoked_) return invalid_->result;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = library.nccl.CommGetAsyncError(comm, &state);
  return asked == ncclSuccess ? state : asked;
}

ncclResult_t Communicator::ask(ncclResult_t* state) const {
  const std::lock_guard lock(asking_);
  if (aborted_) fail(ncclInvalidUsage, "aborted");
  return library.nccl.CommGetAsyncError(comm, state);
}

void Communicator::end_job() const noexcept {
  const std::lock_guard lock(asking_);
  if (!aborted_) (void)terse::end_job(library.nccl, comm);
}

void Communicator::require_healthy() const {
  const std::optional<ncclResult_t> now = state();
  require_usable();  // as it is where there is a state of NCCL's
  if (*now == ncclInProgress) return;
  with_context([&] { check(library, *now, "NCCL's communicator"); });
}

void Communicator::abort() {
  const std::lock_guard lock(asking_);
  aborted_ = true;
  usable_ = false;
}

bool Communicator::revoke() {
  const std::lock_guard lock(asking_);
  usable_ = false;
  return !std::exchange(revoked_, true);
}

void Communicator::take_back_revoke() {
  const std::lock_guard lock(asking_);
  revoked_ = false;
  usable_ = !aborted_ && !invalid_;
}

bool Communicator::revoked() const {
  if (usable_) return false;
  const std::lock_guard lock(asking_);
  return revoked_;
}

void Communicator::invalidate(const std::exception& cause) noexcept { refuse(cause); }

void Communicator::refuse(const std::exception& cause) const noexcept {
  const auto* const error = dynamic_cast<const Error*>(&cause);
  const std::lock_guard lock(asking_);
  if (invalid_) return;
  invalid_.emplace(error != nullptr ? error->result : ncclSystemError, std::string());
  usable_ = false;
  g_any_invalid = true;
  try {
    invalid_->message = without_name(cause.what());
  } catch (const std::bad_alloc&) {
    // without the cause, then
  }
}

void Communicator::notice_mismatch() const noexcept {
  const codec::Mismatch* const found = usable_ ? mismatch.found() : nullptr;
  if (found == nullptr) return;
  try {
    refuse(Error(ncclInvalidUsage, terse::describe(*found)));
  } catch (const std::exception& e) {
    refuse(e);
  }
}

void Communicator::fail_on_mismatch(Stream stream) const noexcept {
  const codec::Mismatch* const found = mismatch.found();
  if (found == nullptr) return;  // no header has come, for NCCL has failed
  notice_mismatch();
  try {
    const std::string text = about(terse::describe(*found));
    log(LogLevel::kError, "{}", text);
    (void)library.host.CommFail(comm, stream, ncclInvalidUsage, text.c_str());
  } catch (const std::exception&) {
    (void)library.host.CommFail(comm, stream, ncclInvalidUsage, "the ranks are at different calls");
  }
}

void Communicator::poison(Stream stream, const std::exception& cause) noexcept {
  try {
    if (recording(stream) == 0) invalidate(cause);
  } catch (const Error& e) {
    // It was recorded, until that broke; else nobody knows.
    if (e.result != ncclInvalidUsage) invalidate(cause);
  }
}

std::optional<ncclResult_t> Communicator::failure() const {
  notice_mismatch();
  if (usable_) return {};
  const std::lock_guard lock(asking_);
  const bool tells = invalid_ && !revoked_ && !silent_;
  return tells ? std::optional(invalid_->result) : std::nullopt;
}

bool Communicator::suppress_async_error(bool for_good) {
  const std::lock_guard lock(asking_);
  return (for_good || invalid_) && !std::exchange(silent_, true);
}

void Communicator::report_async_error() {
  const std::lock_guard lock(asking_);
  silent_ = false;
}

void Communicator::require_usable() const {
  notice_mismatch();
  require_open();
}

void Communicator::require_open() const {
  if (usable_) return;
  const std::lock_guard lock(asking_);
  if (aborted_) fail(ncclInvalidUsage, "aborted");
  if (revoked_) fail(ncclInvalidUsage, "revoked");
  if (!invalid_) return;  // no longer revoked
  fail(
      invalid_->result,
      "its ranks may be at different calls since one has failed, and it is good for nothing but to "
      "be aborted: {}",
      invalid_->message);
}

uint64_t Communicator::recording(Stream stream) const {
  return with_context([&] { return backend.recording(stream); });
}

bool Communicator::wait_until(const std::function<bool()>& so,
                              std::optional<Clock::time_point> limit) const {
  auto pause = std::chrono::microseconds(20);
  while (!so()) {
    require_healthy();
    if (limit && Clock::now() > *limit) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  return true;
}

// `ordinal`: that the ranks have agreed on.
std::string describe(const std::string& name, std::optional<uint64_t> ordinal, int rank,
                     int ranks) {
  const std::string which = !name.empty()
                                ? fmt::format("communicator \"{}\"", printable(shortened(name)))
                            : ordinal ? fmt::format("communicator #{}", *ordinal)
                                      : "a new communicator";
  return fmt::format("{}, rank {} of {}", which, rank, ranks);
}

std::string Communicator::describe() const {
  return terse::describe(name, agreed.number(), rank, ranks);
}

std::string Communicator::about(std::string text) const {
  const std::string name = describe() + ": ";
  return text.starts_with(name) ? text : name + text;
}

// What about() was given.
std::string Communicator::without_name(std::string text) const {
  const std::string name = describe() + ": ";
  return text.starts_with(name) ? text.substr(name.size()) : text;
}

void Communicator::add_context(Error& error) const {
  error.message = about(std::move(error.message));
  error.rank = rank;
}

bool Communicator::ended() noexcept {
  try {
    return stream_sets.ended() && !awaits_ranks();
  } catch (const Error&) {
    return true;  // the device's, which leaves nothing to wait for
  }
}

float Communicator::mean_factor() const {
  const codec::DefaultFloatMode mode;
  const volatile float factor = 1.0f / static_cast<float>(ranks);  // divided while the mode holds
  return factor;
}

bool Communicator::awaits_ranks() const noexcept {
  return (control_buffer != nullptr && !control_buffer->has_ended()) ||
         !std::ranges::all_of(left_, [](const auto& left) { return left->has_ended(); });
}

void Communicator::require_all_came() const {
  if (awaits_ranks())
    fail(ncclInvalidUsage,
         "not every rank came to a call on which they decide together, for which NCCL waits still: "
         "it is good for nothing but to be aborted");
}

bool Communicator::drains() noexcept {
  constexpr auto kGrace = std::chrono::seconds(1);  // what has failed ends soon, or never
  std::optional<Clock::time_point> limit;
  auto pause = std::chrono::microseconds(20);
  try {
    while (!stream_sets.idle()) {
      const std::optional<ncclResult_t> now = state();
      if (!now) return false;
      const bool failed = *now != ncclSuccess && *now != ncclInProgress;
      if (failed && !limit) limit = Clock::now() + kGrace;
      if (limit && Clock::now() > *limit) return false;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(1000));
    }
  } catch (const Error&) {
    // The device's, which leaves nothing to wait for.
  }
  return true;
}

void Communicator::conclude() noexcept {
  try {
    stream_sets.synchronize();
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}", e.message);
  }
  meter.collect();
  codebooks.collect();
  save_fitted();
}

bool Communicator::is_reporting() const { return leads(agreed.identity(), rank); }

// What one has learned on which calls have failed may be of what not all ranks have sent.
void Communicator::save_fitted() const noexcept {
  if (usable_ && is_of_this_process())
    save_levels(settings, codebooks.fitted_levels(), codebooks.continued_levels());
}

void Communicator::read_levels() noexcept {
  const std::lock_guard lock(saving_);
  using Clock = std::chrono::steady_clock;
  unsaved_ = codebooks.collect() || unsaved_;
  if (!unsaved_) return;
  const auto begin = Clock::now();
  if (begin < next_save_) return;
  save_fitted();
  unsaved_ = false;
  const auto end = Clock::now();
  next_save_ = end + 20 * (end - begin);
}

}  // namespace terse
