#include "engine/communicator.h"

#include <array>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "backend/select.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/exchange.h"
#include "engine/reporter.h"
#include "engine/shape.h"

namespace terse {

Communicator::Communicator(const NcclLibrary& library, Backend& backend, ncclComm_t comm)
    : library(library), backend(backend), comm(comm), meter(backend) {
  check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
  check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
  if (ranks == 1) topology = plan::topology_of(std::array{uint64_t{0}});
  stats.size = sizeof stats;
}

Communicator::~Communicator() = default;

void Communicator::settle(ncclResult_t result, const char* call) const {
  const auto limit =
      std::chrono::steady_clock::now() + std::chrono::seconds(settings().timeout_seconds);
  while (result == ncclInProgress) {
    const std::optional<ncclResult_t> now = state();
    if (!now) require_sound();
    result = *now;
    if (result != ncclInProgress) break;
    if (std::chrono::steady_clock::now() > limit)
      fail(ncclSystemError, "{}: {} was not enqueued within {} s (TERSE_TIMEOUT)", describe(), call,
           settings().timeout_seconds);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  check(library, result, call);
}

std::optional<ncclResult_t> Communicator::state() const {
  const std::lock_guard lock(asking_);
  if (aborted_) return {};
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = library.nccl.CommGetAsyncError(comm, &state);
  return asked == ncclSuccess ? state : asked;
}

void Communicator::require_sound() const {
  const std::optional<ncclResult_t> now = state();
  if (!now) fail(ncclInvalidUsage, "{}: aborted", describe());
  try {
    if (*now != ncclInProgress) check(library, *now, "NCCL's communicator");
  } catch (Error& e) {
    sign(e);
    throw;
  }
}

void Communicator::abort() {
  const std::lock_guard lock(asking_);
  aborted_ = true;
}

Track& Communicator::track_for(Stream caller) {
  const uint64_t recording = backend.recording(caller);
  if (recording == 0) {
    if (track_ == nullptr) track_ = std::make_unique<Track>(backend, caller);
    return *track_;
  }
  Track* idle = nullptr;
  for (const auto& track : recorded_) {
    if (track->recording() == recording) return *track;
    if (!track->in_use()) idle = track.get();
  }
  if (idle == nullptr)
    idle = recorded_.emplace_back(std::make_unique<Track>(backend, caller)).get();
  idle->record(caller, recording);
  return *idle;
}

namespace {

std::string describe(ncclComm_t comm, int rank, int ranks) {
  return fmt::format("communicator {}, rank {} of {}", static_cast<const void*>(comm), rank, ranks);
}

}  // namespace

std::string Communicator::describe() const { return terse::describe(comm, rank, ranks); }

void Communicator::sign(Error& error) const {
  const std::string name = describe() + ": ";
  if (!error.message.starts_with(name)) error.message.insert(0, name);
}

namespace {

// A program whose calls are all of different sizes does not fill the memory with plans.
constexpr size_t kMostPlans = 1024;

// The plan in a cache, or one that make(what) builds for what describe() gives.
template <class Key, class Describe, class Make>
PlanPointer cached(const Communicator& c, std::map<Key, PlanPointer>& plans, const Key& key,
                   const Describe& describe, const Make& make) {
  const auto known = plans.find(key);
  if (known != plans.end()) return known->second;
  const auto what = describe();
  plan::Plan plan = make(what);
  const std::string wrong = plan::validate(plan, what);
  if (!wrong.empty()) fail(ncclInternalError, "{}: an invalid plan: {}", c.describe(), wrong);
  if (plans.size() >= kMostPlans) plans.clear();
  return plans.emplace(key, std::make_shared<plan::Plan>(std::move(plan))).first->second;
}

plan::Message message_of(const MessageKey& key) {
  return {.send = key.send,
          .peer = key.peer,
          .count = key.count,
          .element_bytes = key.element_bytes,
          .packed = key.spec.has_value(),
          .packing = key.spec ? packing_of(*key.spec) : plan::Packing{}};
}

}  // namespace

PlanPointer Communicator::plan_for(const PlanKey& key) {
  const auto shape = [&] {
    return shape_of(key.spec, key.count, codec::dtype_size(key.dtype), {ranks, rank, key.root},
                    backend.grain());
  };
  const auto wish = static_cast<plan::Wish>(key.algorithm);
  return cached(*this, plans_, key, shape, [&](const plan::Shape& s) {
    return plan::select(key.collective, s, wish).build(s);
  });
}

PlanPointer Communicator::plan_for(const BatchKey& key) {
  const auto batch = [&] {
    plan::Batch b{.ranks = ranks, .rank = rank, .grain = grain_of(backend.grain()), .messages = {}};
    for (const MessageKey& message : key) b.messages.push_back(message_of(message));
    return b;
  };
  return cached(*this, batches_, key, batch, plan::point_to_point);
}

Binding& Communicator::idle_binding() {
  for (const auto& binding : bindings_)
    if (!binding->busy.load(std::memory_order_acquire)) return *binding;
  return *bindings_.emplace_back(std::make_unique<Binding>());
}

void Communicator::synchronize() {
  if (track_ != nullptr) track_->synchronize();
}

bool Communicator::drains() noexcept {
  using Clock = std::chrono::steady_clock;
  constexpr auto kGrace = std::chrono::seconds(1);  // what has failed ends soon, or never
  std::optional<Clock::time_point> limit;
  auto pause = std::chrono::microseconds(20);
  try {
    while (track_ != nullptr && !track_->idle()) {
      const std::optional<ncclResult_t> now = state();
      const bool failed = !now || (*now != ncclSuccess && *now != ncclInProgress);
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
    synchronize();
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}: {}", describe(), e.message);
  }
  meter.collect();
  report_released(*this, true);
}

namespace {

struct Directory {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, std::unique_ptr<Communicator>> communicators;
  std::unordered_map<ncclComm_t, std::string> names;  // of those that are still to be made
  std::vector<std::unique_ptr<Communicator>> aborted;
  std::set<Backend*> to_trim;  // of communicators that went while there were others
};

// Never destroyed: calls may come from other threads while the program exits.
Directory& directory() {
  static Directory& d = *new Directory;
  return d;
}

Backend& backend_of(const NcclLibrary& library, ncclComm_t comm) {
  try {
    return backend_for(library, comm);
  } catch (Error& e) {
    int rank = 0, ranks = 0;
    check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
    check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
    e.message.insert(0, describe(comm, rank, ranks) + ": ");
    throw;
  }
}

// Whether the handle is that of the same communicator. NCCL does not say where that has failed.
bool still_describes(const Communicator& c) {
  int rank = -1, ranks = -1;
  try {
    check(c.library, c.library.nccl.CommCount(c.comm, &ranks), "ncclCommCount");
    check(c.library, c.library.nccl.CommUserRank(c.comm, &rank), "ncclCommUserRank");
  } catch (Error& e) {
    c.sign(e);
    throw;
  }
  return ranks == c.ranks && rank == c.rank;
}

// Of one that is still being made NCCL says nothing.
void wait_until_made(const NcclLibrary& library, ncclComm_t comm) {
  const int seconds = settings().timeout_seconds;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  ncclResult_t state = ncclSuccess;
  while (check(library, library.nccl.CommGetAsyncError(comm, &state), "ncclCommGetAsyncError"),
         state == ncclInProgress) {
    if (std::chrono::steady_clock::now() > limit)
      fail(ncclSystemError, "communicator {} was not made within {} s (TERSE_TIMEOUT)",
           static_cast<const void*>(comm), seconds);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  check(library, state, "the communicator's creation");
}

}  // namespace

Communicator* find_communicator(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const auto known = d.communicators.find(comm);
  return known == d.communicators.end() ? nullptr : known->second.get();
}

Communicator& communicator(ncclComm_t comm) {
  Communicator* known = find_communicator(comm);
  if (known != nullptr && still_describes(*known)) return *known;
  if (known != nullptr) release_communicator(comm, true);
  const NcclLibrary& library = nccl_library();
  wait_until_made(library, comm);
  auto made = std::make_unique<Communicator>(library, backend_of(library, comm), comm);
  report_begins(*made);
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  if (const auto named = d.names.extract(comm)) made->name = named.mapped();
  return *d.communicators.emplace(comm, std::move(made)).first->second;
}

void name_communicator(ncclComm_t comm, const char* name) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const std::string text = name != nullptr ? name : "";
  const auto known = d.communicators.find(comm);
  if (known == d.communicators.end())
    d.names[comm] = text;
  else
    known->second->name = text;
}

std::string name_of_communicator(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  if (const auto known = d.communicators.find(comm); known != d.communicators.end())
    return known->second->name;
  const auto named = d.names.find(comm);
  return named != d.names.end() ? named->second : "";
}

void for_each_communicator(const std::function<void(Communicator&)>& visit) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  for (const auto& [comm, state] : d.communicators) visit(*state);
}

namespace {

// Out of the directory, and null where there is none.
std::unique_ptr<Communicator> take(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  d.names.erase(comm);
  auto known = d.communicators.extract(comm);
  return known.empty() ? nullptr : std::move(known.mapped());
}

// What it has enqueued may still run, or wait, and another thread may be in it.
void keep(std::unique_ptr<Communicator> state) {
  report_released(*state, false);  // with what is known by now
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  d.aborted.push_back(std::move(state));
}

// What communicators have released goes back to the machines with the last one: before, other ranks
// of this process may wait for one that would not come back from trim().
void released(Backend& backend) {
  std::set<Backend*> all;
  {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    d.to_trim.insert(&backend);
    if (d.communicators.empty()) all.swap(d.to_trim);
  }
  for (Backend* each : all) each->trim();
}

}  // namespace

void release_communicator(ncclComm_t comm, bool abandon) {
  std::unique_ptr<Communicator> state = take(comm);
  if (state == nullptr) return;
  std::exception_ptr failed;
  const bool drained = state->drains();
  try {
    if (!drained)
      state->require_sound();
    else if (!abandon)
      state->synchronize();
  } catch (...) {
    if (!abandon) failed = std::current_exception();
  }
  if (drained) {
    Backend& backend = state->backend;
    state->conclude();
    state.reset();
    released(backend);
  } else {
    keep(std::move(state));
  }
  if (failed) std::rethrow_exception(failed);
}

void abort_communicator(ncclComm_t comm) {
  std::unique_ptr<Communicator> state = take(comm);
  if (state == nullptr) return;
  state->abort();
  keep(std::move(state));
}

}  // namespace terse
