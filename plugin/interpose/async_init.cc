#include "interpose/async_init.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "backend/select.h"
#include "base/log.h"
#include "engine/call/banner.h"
#include "engine/comm/directory.h"
#include "engine/peers/agree.h"
#include "interpose/child_comms.h"
#include "interpose/next.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

// Runs a program as without us if nothing is compressed, even if the backend is missing: its ranks
// cannot tell the others then.
bool does_without_backend() { return settings().error.empty() && !settings().policy.compresses(); }

// does_without_backend() for the communicator's GPU.
bool lacks_backend_for(ncclComm_t comm) {
  if (!does_without_backend()) return false;
  try {
    backend_for(*next().library, comm, settings().cuda_module);
    return false;
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}", e.message);
    return true;
  }
}

// Initialization in the background.
struct AsyncInit {
  AsyncInit(ncclComm_t comm, ncclComm_t parent, const char* by, std::optional<uint64_t> ordinal)
      : comm(comm), parent(parent), by(by), ordinal(ordinal) {}

  const ncclComm_t comm, parent;
  const char* const by;
  const std::optional<uint64_t> ordinal;
  const pid_t process = getpid();  // a forked child lacks the thread
  std::atomic<bool> given_up = false;
  std::atomic<ncclResult_t> nccls = ncclInProgress;  // NCCL's state of it
  // Guarded by the mutex.
  bool over = false;
  bool silent = false;     // hides its error, but from calls
  bool may_leave = false;  // lets its thread end
  std::optional<Error> error = {};
};

struct AsyncInits {
  std::mutex mutex;
  std::condition_variable over, leave;
  // Under way, or failed and not yet ended with the communicator.
  std::vector<std::shared_ptr<AsyncInit>> all;
};

// Never destroyed: calls may come from other threads while the program exits.
AsyncInits& async_inits() {
  static AsyncInits& all = *new AsyncInits;
  return all;
}

// Size of AsyncInits::all, so that asking costs nothing while there are none.
std::atomic<size_t> g_inits{0};

auto find(AsyncInits& s, ncclComm_t comm) {
  return std::ranges::find_if(
      s.all, [&](const auto& a) { return a->comm == comm && a->process == getpid(); });
}

// Returns null if there is none.
std::shared_ptr<AsyncInit> init_of(AsyncInits& s, ncclComm_t comm) {
  const auto own = find(s, comm);
  return own == s.all.end() ? nullptr : *own;
}

void erase(AsyncInits& s, std::vector<std::shared_ptr<AsyncInit>>::iterator place) {
  s.all.erase(place);
  g_inits.store(s.all.size(), std::memory_order_release);
}

void release_thread(AsyncInit& a) {
  AsyncInits& s = async_inits();
  const std::lock_guard lock(s.mutex);
  a.may_leave = true;
  s.leave.notify_all();
}

InitThread thread_of(const std::shared_ptr<AsyncInit>& a) {
  return {a.get(), [a](const void*) { release_thread(*a); }};
}

// NCCL's state of the communicator. Ends the job of its group once it is made (flush_group_job()),
// which communicators of one group share: by one thread at a time, and once.
ncclResult_t progress_of(AsyncInit& a) {
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (a.nccls == ncclInProgress && !a.given_up)
    a.nccls = flush_group_job(next().library->nccl, a.comm);
  return a.nccls;
}

// Waits until NCCL has made it; returns true if it has.
bool is_made(AsyncInit& a) {
  auto pause = std::chrono::microseconds(20);
  while (!a.given_up) {
    const ncclResult_t at = progress_of(a);
    if (at != ncclInProgress) return at == ncclSuccess;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  return false;
}

// Gives up a state made after an abort: the handle may be another communicator's by now.
void give_up(const CommunicatorPointer& late) {
  if (find_communicator(late->comm) == late) abort_communicator(late->comm);
}

void finish_init(AsyncInit& a) {
  const InNccl in_nccl;
  if (!is_made(a) || lacks_backend_for(a.comm)) return;
  const CommunicatorPointer held = communicator(a.comm, settings());
  if (a.given_up) return give_up(held);  // else abort_init() finds it
  const OnMachine on(held->backend);
  if (a.ordinal) held->agreed().propose([&] { return *a.ordinal; });
  const Agreement settings_alone{held.get(), nullptr, nullptr};
  agree({&settings_alone, 1});
  held->health().flush_group_job();
  require_valid(settings());
  announce(*held);
}

// An aborted initialization is no longer in the list.
void conclude(const std::shared_ptr<AsyncInit>& a, std::optional<Error> error) {
  AsyncInits& s = async_inits();
  const std::lock_guard lock(s.mutex);
  a->over = true;
  a->error = std::move(error);
  if (const auto place = std::ranges::find(s.all, a); place != s.all.end() && !a->error)
    erase(s, place);
  s.over.notify_all();
}

// Parks the thread while NCCL may come back to its memory (InitThread).
void park_thread(const AsyncInit& a) {
  AsyncInits& s = async_inits();
  std::unique_lock lock(s.mutex);
  s.leave.wait(lock, [&] { return a.may_leave; });
}

void run(const std::shared_ptr<AsyncInit>& a) {
  std::optional<Error> error;
  const ncclResult_t result = ours(a->by, [&] {
    try {
      finish_init(*a);
    } catch (const Error& e) {
      if (a->given_up) return ncclSuccess;
      error = e;
      throw;
    }
    return ncclSuccess;
  });
  // as for want of memory
  if (result != ncclSuccess && !error) error.emplace(result, last_error());
  const bool failed = error.has_value();
  conclude(a, std::move(error));
  if (failed || a->given_up) park_thread(*a);
}

// Blocks until the communicator's initialization has ended; null: there is none.
std::shared_ptr<AsyncInit> wait_for_init_state(ncclComm_t comm) {
  if (!has_inits()) return nullptr;
  AsyncInits& s = async_inits();
  std::unique_lock lock(s.mutex);
  const auto held = init_of(s, comm);
  const auto is_over = [&] { return held == nullptr || held->over; };
  while (!s.over.wait_for(lock, std::chrono::milliseconds(1), is_over)) {
    lock.unlock();
    register_children();
    lock.lock();
  }
  return held;
}

// wait_for_init_state() for a call, which must not reach NCCL if another thread has aborted the
// communicator.
std::shared_ptr<AsyncInit> wait_for_init_of_a_call(ncclComm_t comm) {
  require_made(comm);
  auto held = wait_for_init_state(comm);
  if (held != nullptr && held->given_up)
    fail(ncclInvalidUsage, "the communicator was aborted while the call waited for it");
  return held;
}

}  // namespace

bool lacks_backend() {
  return does_without_backend() && !has_backend(*next().library, settings().cuda_module);
}

void finish_init(std::span<const ncclComm_t> comms) {
  const InNccl in_nccl;
  std::vector<CommunicatorPointer> held;
  std::vector<Agreement> agreements;
  for (const ncclComm_t comm : comms) {
    if (lacks_backend_for(comm)) continue;
    held.push_back(communicator(comm, settings()));
    agreements.push_back({held.back().get(), nullptr, nullptr});
  }
  agree(agreements);
  require_valid(settings());
  for (const CommunicatorPointer& c : held) announce(*c);
}

void begin_init(ncclComm_t comm, const char* by, ncclComm_t parent,
                std::optional<uint64_t> ordinal) {
  const auto made = std::make_shared<AsyncInit>(comm, parent, by, ordinal);
  AsyncInits& s = async_inits();
  {
    const std::lock_guard lock(s.mutex);
    // A destroy that we did not intercept may have freed the handle.
    std::erase_if(s.all, [&](const auto& a) {
      const bool gone = a->comm == comm && a->over;
      a->may_leave |= gone;
      return gone;
    });
    s.leave.notify_all();
    s.all.push_back(made);
    g_inits.store(s.all.size(), std::memory_order_release);
  }
  try {
    std::thread(run, made).detach();
  } catch (const std::exception& e) {
    conclude(made, Error(ncclSystemError, fmt::format("no thread can be made: {}", e.what())));
  }
}

bool has_inits() noexcept { return g_inits.load(std::memory_order_acquire) != 0; }

bool is_initializing(ncclComm_t comm) noexcept {
  if (!has_inits()) return false;
  AsyncInits& s = async_inits();
  const std::lock_guard lock(s.mutex);
  const auto own = find(s, comm);
  return own != s.all.end() && !(*own)->over;
}

void require_made(ncclComm_t comm) {
  claim_child(comm);
  if (!has_inits()) return;
  AsyncInits& s = async_inits();
  std::unique_lock lock(s.mutex);
  const auto held = init_of(s, comm);
  lock.unlock();
  if (held != nullptr && progress_of(*held) == ncclInProgress && !held->given_up)
    fail(ncclInvalidArgument,
         "the communicator is still being initialised: wait until ncclCommGetAsyncError no longer "
         "says ncclInProgress");
}

ncclResult_t init_state(ncclComm_t comm) noexcept {
  AsyncInits& s = async_inits();
  const std::lock_guard lock(s.mutex);
  for (const auto& a : s.all) {
    if (a->process != getpid()) continue;
    if ((a->comm == comm || a->parent == comm) && !a->over) return ncclInProgress;
    if (a->comm == comm && !a->silent) return a->error->result;
  }
  return ncclSuccess;
}

void require_initialized(ncclComm_t comm) {
  const auto held = wait_for_init_of_a_call(comm);
  if (held != nullptr && held->error) throw *held->error;
}

void wait_for_init(ncclComm_t comm) { wait_for_init_of_a_call(comm); }

void suppress_init_error(ncclComm_t comm) noexcept {
  AsyncInits& s = async_inits();
  const std::lock_guard lock(s.mutex);
  if (const auto held = init_of(s, comm)) held->silent = true;
}

InitThread end_init(ncclComm_t comm) {
  wait_for_init_state(comm);
  AsyncInits& s = async_inits();
  const std::lock_guard lock(s.mutex);
  const auto left = find(s, comm);
  if (left == s.all.end()) return nullptr;
  const std::shared_ptr<AsyncInit> held = *left;
  erase(s, left);
  return thread_of(held);
}

InitThread abort_init(ncclComm_t comm) {
  if (!has_inits()) return nullptr;
  constexpr std::chrono::seconds kGrace{1};  // it ends soon, or it is inside NCCL
  AsyncInits& s = async_inits();
  std::unique_lock lock(s.mutex);
  const auto own = find(s, comm);
  if (own == s.all.end()) return nullptr;
  const std::shared_ptr<AsyncInit> held = *own;
  held->given_up = true;
  erase(s, own);
  lock.unlock();
  abort_communicator(comm);
  lock.lock();
  s.over.wait_for(lock, kGrace, [&] { return held->over; });
  lock.unlock();
  return thread_of(held);
}

}  // namespace terse::interpose
