#include "engine/comm/communicator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "engine/comm/shape.h"
#include "engine/observe/reporter.h"
#include "engine/peers/exchange.h"
#include "plan/beside.h"

namespace terse {

Communicator::Communicator(const NcclLibrary& library, Backend& backend, ncclComm_t comm)
    : library(library), backend(backend), comm(comm), meter(backend), states(backend) {
  check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
  check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
  if (ranks == 1) topology = plan::topology_of(std::array{uint64_t{0}});
  stats.size = sizeof stats;
}

Communicator::~Communicator() {
  verdict.reset();  // which may leave something, too
  for (const Left& left : left_) {
    backend.destroy_stream(left.stream);
    backend.release(left.memory);
  }
}

void Communicator::learn(plan::Topology known) {
  topology = std::move(known);
  plans_.clear();  // that were made without
}

void Communicator::exclude(size_t elements, std::vector<plan::Range> ranges) {
  if (ranges.empty())
    exclusions_.erase(elements);
  else
    exclusions_[elements] = std::move(ranges);
  plans_.clear();  // which have others
}

std::span<const plan::Range> Communicator::excluded_from(const PlanKey& key) const {
  if (!plan::may_keep_exact(key.collective)) return {};
  const auto known = exclusions_.find(key.count * plan::pieces(key.collective, ranks));
  if (known == exclusions_.end()) return {};
  return known->second;
}

terseStats_t Communicator::current_stats() {
  terseStats_t current = stats;
  current.nodes = static_cast<size_t>(topology.nodes());
  current.state_bytes = states.bytes();
  meter.collect();
  meter.add_to(current);
  return current;
}

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

// `ordinal`: that the ranks have agreed on.
std::string describe(const std::string& name, std::optional<uint64_t> ordinal, int rank,
                     int ranks) {
  const std::string which = !name.empty() ? fmt::format("communicator \"{}\"", name)
                            : ordinal     ? fmt::format("communicator #{}", *ordinal)
                                          : "a new communicator";
  return fmt::format("{}, rank {} of {}", which, rank, ranks);
}

std::string Communicator::describe() const {
  return terse::describe(name, identity != 0 ? std::optional(ordinal) : std::nullopt, rank, ranks);
}

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
                    {backend.grain(), topology});
  };
  return cached(*this, plans_, key, shape, [&](const plan::Shape& s) {
    const plan::Selection selection = plan::select(key.collective, s, key.algorithm, algorithms);
    return plan::with(selection.algorithm->build(s), key.collective, s,
                      {.exact = excluded_from(key), .verified = key.verified});
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

bool Communicator::ended() noexcept {
  const auto runs = [](const auto& track) { return track->in_use() || !track->idle(); };
  try {
    return (track_ == nullptr || track_->idle()) && (verdict == nullptr || verdict->idle()) &&
           std::ranges::none_of(recorded_, runs) &&
           std::ranges::all_of(left_, [&](const Left& l) { return backend.idle(l.stream); });
  } catch (const Error&) {
    return true;  // the device's, which leaves nothing to wait for
  }
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

}  // namespace terse
