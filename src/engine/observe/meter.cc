#include "engine/observe/meter.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <span>
#include <utility>

#include "base/log.h"
#include "base/patient_lock.h"
#include "engine/observe/choice.h"

namespace terse {

namespace {

// Returns true for a call to take: the first of its kind, and one in n.
bool takes(uint64_t n, std::vector<CallKind>& known, const CallKind& kind, uint64_t communicator,
           uint64_t number) {
  if (n == 0) return false;
  const bool first = std::ranges::find(known, kind) == known.end();
  if (first) known.push_back(kind);
  return first || is_chosen(n, communicator, number);
}

}  // namespace

double relative_error(const codec::Difference& d) {
  if (d.squares == 0) return 0;
  if (d.exact_squares == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(d.squares / d.exact_squares);
}

bool Meter::verifies(const CallKind& kind, const CallNumber& number) {
  return number.collective &&
         takes(settings_.verify, verified_, kind, number.communicator, *number.collective);
}

bool Meter::knows(const CallKind& kind) {
  const std::lock_guard lock(mutex_);
  return has_run(kind);
}

size_t Meter::kinds() {
  const std::lock_guard lock(mutex_);
  return tallies_.size();
}

// A first call makes what later ones have, natively and compressed.
bool Meter::has_run(const CallKind& kind) const {
  return std::ranges::find(tallies_, kind, &Tally::kind) != tallies_.end();
}

Wanted Meter::wanted(const CallKind& kind, const CallNumber& number, bool verified) {
  const bool room = pending_.size() < (settings_.observe ? kMaxObserved : kMaxPending);
  const uint64_t period = settings_.observe ? 1 : backend_.timing_period();
  const uint64_t n = settings_.meter.value_or(period);
  return {.metered = room && takes(n, timed_, kind, number.communicator, number.sequence),
          .verified = verified,
          .raced = room && verified && n != 0 && has_run(kind),
          .traced = room && traces(),
          .number = number.collective.value_or(0)};
}

// Calls that are under way have the old one until they are read.
void Meter::renew_clock() {
  if (clock_ == nullptr || clock_->is_old())
    clock_ = std::make_shared<const WallClock>(backend_, now_);
}

template <class Decide>
Sample* Meter::start_if(const plan::Plan& plan, const Decide& decide) noexcept {
  const std::lock_guard measuring(measuring_);
  read_done();
  try {
    const Wanted all = decide();
    if (!all.timed() && !all.verified) return nullptr;
    if (all.traced) renew_clock();
    if (idle_.empty()) {
      samples_.push_back(std::make_unique<Sample>(backend_));
      idle_.reserve(samples_.size());  // read_done() then needs no memory
      idle_.push_back(samples_.back().get());
    }
    idle_.back()->start(plan, all, all.traced ? clock_ : nullptr);
  } catch (const std::exception& e) {
    // The other ranks' calls, which know nothing of it, wait for this one.
    log(LogLevel::kInfo, "a call is not measured: {}", e.what());
    return nullptr;
  }
  Sample* sample = idle_.back();
  idle_.pop_back();
  return sample;
}

Sample* Meter::start(const plan::Plan& plan, const CallKind& kind, const CallNumber& number,
                     bool verified) noexcept {
  return start_if(plan, [&] { return wanted(kind, number, verified); });
}

Sample* Meter::start_native(const plan::Plan& plan) noexcept {
  if (!traces()) return nullptr;
  return start_if(plan, [&] { return Wanted{.traced = natives_.size() < kMaxPending}; });
}

size_t Meter::tally_of(const CallKind& kind) {
  const auto known = std::ranges::find(tallies_, kind, &Tally::kind);
  if (known == tallies_.end()) {
    tallies_.push_back({.kind = kind});
    return tallies_.size() - 1;
  }
  return known - tallies_.begin();
}

void Meter::count(const CountedCall& call, Sample* sample) {
  const std::lock_guard measuring(measuring_);
  const std::lock_guard lock(mutex_);
  size_t index = kNoTally;
  if (!call.bypass) {
    index = tally_of(call.kind);
    ++tallies_[index].calls;
    tallies_[index].fused += call.is_fused;
    tallies_[index].sent += call.sent;
  }
  if (sample == nullptr) return;
  std::vector<Pending>& under_way = call.bypass ? natives_ : pending_;
  under_way.push_back(
      {sample, index, call.predicted, call.predicted_native, {}, sample->take_clock()});
  if (sample->wanted().traced) under_way.back().traced = call;
}

void Meter::drop(Sample* sample, bool native) {
  const std::lock_guard measuring(measuring_);
  (native ? natives_ : pending_).push_back({sample, kNoTally, 0, 0, {}, sample->take_clock()});
}

void Meter::read(const Pending& pending) {
  if (pending.tally == kNoTally && !pending.traced) return;
  const Wanted& wanted = pending.sample->wanted();
  const std::optional<PhaseTimes> times = pending.sample->times();
  const std::optional<double> native = pending.sample->native();
  const std::optional<codec::Difference> difference = pending.sample->difference();
  const std::optional<CallTime> time =
      pending.traced ? pending.sample->since(pending.clock->origin()) : std::nullopt;
  const std::lock_guard lock(mutex_);
  if (time) trace(*pending.traced, *time, *pending.clock);
  if (pending.tally == kNoTally) return;
  Tally& tally = tallies_[pending.tally];
  if (times && native && wanted.raced) {
    ++tally.both.calls;
    tally.both.native += *native;
    tally.both.compressed += times->total;
  }
  if (times && wanted.metered) {
    ++tally.timed;
    tally.foreseen += pending.predicted != 0;
    tally.predicted += pending.predicted;
    tally.predicted_native += pending.predicted_native;
    tally.times += *times;
  }
  if (difference) {
    const double error = relative_error(*difference);
    tally.relative.add(error);
    if (std::isfinite(error)) tally.errors.add(wanted.number, error);
    codec::include(tally.difference, *difference);
  }
}

void Meter::trace(const CountedCall& call, const CallTime& time, const WallClock& clock) {
  TracedCall traced{call, clock.at(time.begin), clock.at(time.end), {}, time.left_out};
  // The only step of a native call is the call.
  for (const StepTime& step : call.bypass ? std::span<const StepTime>() : time.steps)
    traced.steps.push_back({step.name, step.queue, clock.at(step.begin), clock.at(step.end)});
  if (traced_.size() == settings_.trace) traced_.pop_front();
  traced_.push_back(std::move(traced));
}

void Meter::collect() noexcept {
  const auto measuring = patient_lock(measuring_);
  if (measuring.owns_lock()) read_done();
}

// A measurement that fails is lost, and no reason for a call to fail.
void Meter::read_done(std::vector<Pending>& all) noexcept {
  while (!all.empty()) {
    try {
      if (!all.front().sample->done()) return;
      read(all.front());
    } catch (const std::exception& e) {
      log(LogLevel::kInfo, "a measurement was lost: {}", e.what());
    }
    idle_.push_back(all.front().sample);
    all.erase(all.begin());
  }
}

void Meter::read_done() noexcept {
  read_done(pending_);
  read_done(natives_);
}

std::vector<Tally> Meter::tallies() {
  const auto lock = patient_lock(mutex_);
  return lock.owns_lock() ? tallies_ : std::vector<Tally>{};
}

std::vector<TracedCall> Meter::traced() {
  const auto lock = patient_lock(mutex_);
  if (!lock.owns_lock()) return {};
  return {traced_.begin(), traced_.end()};
}

void Meter::add_to(terseStats_t& stats) {
  const auto nanoseconds = [](double seconds) { return static_cast<size_t>(1e9 * seconds + 0.5); };
  codec::Difference difference;
  Distribution relative;
  PhaseTimes times;
  for (const Tally& t : tallies()) {
    stats.timed_calls += t.timed;
    times += t.times;
    relative.add(t.relative);
    codec::include(difference, t.difference);
  }
  stats.total_ns = nanoseconds(times.total);
  stats.encode_ns = nanoseconds(times.encode);
  stats.communicate_ns = nanoseconds(times.communicate);
  stats.decode_ns = nanoseconds(times.decode);
  stats.fused_ns = nanoseconds(times.fused);
  stats.verified_calls = relative.count();
  stats.relative_error = relative_error(difference);
  stats.median_relative_error = relative.median();
  stats.p99_relative_error = relative.percentile(99);
  stats.worst_relative_error = relative.greatest();
  stats.largest_error = difference.largest;
  stats.lost_nonfinite = difference.lost;
  stats.spread_nonfinite = difference.spread;
}

}  // namespace terse
