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

}  // namespace

Communicator::Communicator(const Settings& settings, const NcclLibrary& library, Backend& backend,
                           ncclComm_t comm)
    : CommIdentity(settings, library, comm),
      backend(backend),
      mismatch_(backend),
      health_(*this, mismatch_),
      routing_(
          rank, ranks, chunk_policy_of(settings, backend.chunk_policy()),
          {.window_bytes = backend.has_windows() ? max_window_bytes(settings, backend.is_gpu()) : 0,
           .takes =
               [&backend](const Forms& forms, codec::Dtype raw) {
                 return backend.fuses(forms.spec, forms.second.value_or(forms.spec), raw);
               }}),
      metrics_(backend, settings),
      memory_(backend, settings, ranks) {}

terseStats_t Communicator::current_stats() {
  const Shadows& shadows = memory_.shadows();
  terseStats_t current = metrics_.counters().stats();
  const plan::Topology topology = routing_.plans().topology_now();
  current.nodes = static_cast<size_t>(topology.nodes());
  current.pods = static_cast<size_t>(topology.pods());
  current.state_bytes = memory_.state_bytes();
  current.delta_calls = shadows.differences();
  current.delta_unchanged = shadows.unchanged();
  current.delta_full[TERSE_FULL_FIRST] = shadows.in_full(InFull::kFirst);
  current.delta_full[TERSE_FULL_OTHERS] = shadows.in_full(InFull::kOthers);
  current.delta_full[TERSE_FULL_EVERY] = shadows.in_full(InFull::kEvery);
  current.delta_full[TERSE_FULL_MEMORY] = shadows.in_full(InFull::kMemory);
  current.delta_full[TERSE_FULL_NONFINITE] = shadows.in_full(InFull::kNonfinite);
  metrics_.meter().collect();
  metrics_.meter().add_to(current);
  return current;
}

void Communicator::settle(ncclResult_t result, const char* call) const {
  const auto longest = std::chrono::seconds(10 * settings.timeout_seconds);
  const auto limit = Clock::now() + longest;
  while (result == ncclInProgress) {
    const std::optional<ncclResult_t> now = health_.async_state();
    health_.require_usable();
    result = *now;
    if (result != ncclInProgress) break;
    if (Clock::now() > limit)
      fail(ncclSystemError, "{} was not enqueued within {} s (10 times TERSE_TIMEOUT)", call,
           longest.count());
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  check(library, result, call);
}

void Communicator::poison(Stream stream, const std::exception& cause) noexcept {
  try {
    if (recording(stream) == 0) health_.poison(cause);
  } catch (const Error& e) {
    // A broken recording is no failure of the communicator.
    if (e.result != ncclInvalidUsage) health_.poison(cause);
  }
}

uint64_t Communicator::recording(Stream stream) const {
  return with_context([&] { return backend.recording(stream); });
}

bool Communicator::wait_until(const std::function<bool()>& so,
                              std::optional<Clock::time_point> limit) const {
  auto pause = std::chrono::microseconds(20);
  while (!so()) {
    health_.require_healthy();
    if (limit && Clock::now() > *limit) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  return true;
}

bool Communicator::ended() noexcept {
  try {
    return memory_.stream_sets().ended() && !memory_.awaits_ranks();
  } catch (const Error&) {
    return true;  // a failed device leaves nothing to wait for
  }
}

float Communicator::mean_factor() const {
  const codec::DefaultFloatMode mode;
  const volatile float factor = 1.0f / static_cast<float>(ranks);  // divided while the mode holds
  return factor;
}

void Communicator::require_all_came() const {
  if (memory_.awaits_ranks())
    fail(ncclInvalidUsage,
         "not every rank came to a call on which they decide together, for which NCCL waits still: "
         "it is good for nothing but to be aborted");
}

bool Communicator::drains() noexcept {
  constexpr auto kGrace = std::chrono::seconds(1);  // failed work ends soon, or never
  std::optional<Clock::time_point> limit;
  auto pause = std::chrono::microseconds(20);
  try {
    while (!memory_.stream_sets().idle()) {
      const std::optional<ncclResult_t> now = health_.async_state();
      if (!now) return false;
      const bool failed = *now != ncclSuccess && *now != ncclInProgress;
      if (failed && !limit) limit = Clock::now() + kGrace;
      if (limit && Clock::now() > *limit) return false;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(1000));
    }
  } catch (const Error&) {
    // A failed device leaves nothing to wait for.
  }
  return true;
}

void Communicator::conclude() noexcept {
  try {
    memory_.stream_sets().synchronize();
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}", e.message);
  }
  metrics_.meter().collect();
  memory_.codebooks().collect();
  save_fitted();
}

bool Communicator::is_reporting() const { return leads(agreed().identity(), rank); }

// Levels learned before a failure may be of data that not all ranks have sent.
void Communicator::save_fitted() const noexcept {
  if (health_.usable() && is_of_this_process())
    save_levels(settings, memory_.codebooks().fitted_levels(),
                memory_.codebooks().continued_levels());
}

void Communicator::read_levels() noexcept {
  const std::lock_guard lock(saving_);
  using Clock = std::chrono::steady_clock;
  unsaved_ = memory_.codebooks().collect() || unsaved_;
  if (!unsaved_) return;
  const auto begin = Clock::now();
  if (begin < next_save_) return;
  save_fitted();
  unsaved_ = false;
  const auto end = Clock::now();
  next_save_ = end + 20 * (end - begin);
}

}  // namespace terse
