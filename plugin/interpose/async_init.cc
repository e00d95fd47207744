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

// Where nothing is compressed a program runs as without us, also where the backend is missing: its
// ranks then cannot tell the others.
bool does_without_backend() { return settings().error.empty() && !settings().policy.compresses(); }

// The same of the communicator's GPU.
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

// In the background.
struct AsyncInit {
  AsyncInit(ncclComm_t comm, ncclComm_t parent, const char* by, std::optional<uint64_t> ordinal)
      : comm(comm), parent(parent), by(by), ordinal(ordinal) {}

  const ncclComm_t comm, parent;
  const char* const by;
  const std::optional<uint64_t> ordinal;
  const pid_t process = getpid();  // a forked child has not the thread that it goes on in
  std::atomic<bool> given_up = false;
  std::atomic<ncclResult_t> nccls = ncclInProgress;  // how far NCCL is with it
  // Under the lock.
  bool over = false;
  bool silent = false;     // about its error, but to calls
  bool may_leave = false;  // its thread, also where that did not succeed
  std::optional<Error> error = {};
};

struct AsyncInits {
  std::mutex mutex;
  std::condition_variable over, leave;
  // Under way, and those that have failed, as long as there is the communicator.
  std::vector<std::shared_ptr<AsyncInit>> all;
};

// Never destroyed: calls may come from other threads while the program exits.
AsyncInits& async_inits() {
  static AsyncInits& all = *new AsyncInits;
  return all;
}

// Of AsyncInits::all, so that asking costs nothing where there are none.
std::atomic<size_t> g_inits{0};

auto find(AsyncInits& s, ncclComm_t comm) {
  return std::ranges::find_if(
      s.all, [&](const auto& a) { return a->comm == comm && a->process == getpid(); });
}

// Null: there is none.
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

// How far NCCL is with it. Where it is made the job of its group is ended, too
// (flush_group_job()), which communicators of one group share: by one thread at a time, and once.
ncclResult_t progress_of(AsyncInit& a) {
  static std::mutex& mutex = *new std::mutex;
  const std::lock_guard lock(mutex);
  if (a.nccls == ncclInProgress && !a.given_up)
    a.nccls = flush_group_job(next().library->nccl, a.comm);
  return a.nccls;
}

// Waits until NCCL has made it; whether it has.
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

// What was made after its communicator had been given up: the handle may be another one's by now.
void give_up(const CommunicatorPointer& late) {
  if (find_communicator(late->comm) == late) abort_communicator(late->comm);
}

void finish_init(AsyncInit& a) {
  const InNccl in_nccl;
  if (!is_made(a) || lacks_backend_for(a.comm)) return;
  const CommunicatorPointer held = communicator(a.comm, settings());
  if (a.given_up) return give_up(held);  // else it is known by now to who gives it up
  const OnMachine on(held->backend);
  if (a.ordinal) held->agreed.propose([&] { return *a.ordinal; });
  const Agreement settings_alone{held.get(), nullptr, nullptr};
  agree({&settings_alone, 1});
  held->health.flush_group_job();
  require_valid(settings());
  announce(*held);
}

// One that was given up is not among them any more.
void conclude(const std::shared_ptr<AsyncInit>& a, std::optional<Error> error) {
  AsyncInits& s = async_inits();
  const std::lock_guard lock(s.mutex);
  a->over = true;
  a->error = std::move(error);
  if (const auto place = std::ranges::find(s.all, a); place != s.all.end() && !a->error)
    erase(s, place);
  s.over.notify_all();
}

// As long as NCCL may come back to what lies in this thread's memory (InitThread).
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
  if (result != ncclSuccess && !error) error.emplace(result, last_error());  // as without memory
  const bool failed = error.has_value();
  conclude(a, std::move(error));
  if (failed || a->given_up) park_thread(*a);
}

// Blocks until the communicator's admission is over; null: there is none.
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

// The same of a call, which is not for NCCL where another thread has aborted the communicator.
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
    // Its handle may be that of one that failed, and went by a way which we did not see.
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
  constexpr std::chrono::seconds kGrace{1};  // it ends soon, or it is inside of NCCL
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
