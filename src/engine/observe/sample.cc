#include "engine/observe/sample.h"

#include <algorithm>

namespace terse {

PhaseTimes& PhaseTimes::operator+=(const PhaseTimes& other) {
  total += other.total;
  encode += other.encode;
  communicate += other.communicate;
  decode += other.decode;
  fused += other.fused;
  return *this;
}

Sample::~Sample() {
  for (const Event mark : marks_) backend_.destroy_event(mark);
  if (end_ != nullptr) backend_.destroy_event(end_);
  backend_.release_visible(comparison_.parts);
}

void Sample::start(const plan::Plan& plan, const Wanted& wanted,
                   std::shared_ptr<const WallClock> clock) {
  kinds_.clear();
  for (const plan::Step& step : plan.steps) {
    const bool verifies = std::ranges::any_of(
        step.natives, [](const auto& n) { return n.recv.region == plan::Region::kExact; });
    kinds_.push_back({step.name, step.lane, step.queue(), step.is_extra, verifies});
  }
  is_fused_ = plan.fused != nullptr;
  wanted_ = wanted;
  clock_ = std::move(clock);
  compared_ = false;
  if (end_ == nullptr) end_ = backend_.create_timer();
  while (wanted.timed() && marks_.size() < 2 * plan.steps.size())
    marks_.push_back(backend_.create_timer());
  if (wanted.verified && comparison_.parts == nullptr)
    comparison_.parts = static_cast<codec::Difference*>(
        backend_.allocate_visible(codec::kDifferenceParts * sizeof(codec::Difference)));
}

void Sample::mark(size_t which, Stream lane) {
  const Kind& kind = kinds_[which / 2];
  if (wanted_.timed() && kind.shown()) backend_.record(marks_[which], lane);
}

void Sample::compare(Stream stream, const void* value, const void* exact, size_t count,
                     codec::Dtype dtype) {
  comparison_ = {value, exact, count, dtype, comparison_.parts};
  backend_.compare(stream, comparison_);
  compared_ = true;
}

void Sample::finish(Stream stream) { backend_.record(end_, stream); }

bool Sample::done() const { return backend_.seconds(end_, end_).has_value(); }

// The time in which at least one step of the lane's kind was under way.
double Sample::busy(plan::Lane lane) {
  sorted_.clear();
  for (size_t i = 0; i < steps_.size(); ++i)
    if (!kinds_[i].is_extra && kinds_[i].lane == lane) sorted_.push_back(steps_[i]);
  std::ranges::sort(sorted_, {}, &Interval::begin);
  double sum = 0, until = 0;
  for (const Interval& step : sorted_) {
    sum += std::max(0.0, step.end - std::max(until, step.begin));
    until = std::max(until, step.end);
  }
  return sum;
}

std::optional<Sample::Interval> Sample::interval(Event origin, size_t step) const {
  const auto from = backend_.seconds(origin, marks_[2 * step]);
  const auto to = backend_.seconds(origin, marks_[2 * step + 1]);
  if (!from || !to) return {};
  return Interval{*from, *to};
}

// The first step of the call itself.
size_t Sample::first() const {
  return std::ranges::find(kinds_, false, &Kind::is_extra) - kinds_.begin();
}

std::optional<PhaseTimes> Sample::times() {
  if (!wanted_.timed()) return {};
  steps_.assign(kinds_.size(), {});
  double end = 0;
  for (size_t i = first(); i < kinds_.size(); ++i) {
    if (kinds_[i].is_extra) continue;
    const std::optional<Interval> step = interval(marks_[2 * first()], i);
    if (!step) return {};
    steps_[i] = {std::max(0.0, step->begin), std::max(0.0, step->end)};
    end = std::max(end, steps_[i].end);
  }
  if (is_fused_) return PhaseTimes{.total = end, .fused = end};
  return PhaseTimes{.total = end,
                    .encode = busy(plan::Lane::kEncode),
                    .communicate = busy(plan::Lane::kCommunicate),
                    .decode = busy(plan::Lane::kDecode)};
}

std::optional<double> Sample::native() const {
  const auto step = std::ranges::find(kinds_, true, &Kind::verifies);
  if (!wanted_.timed() || step == kinds_.end()) return {};
  const size_t mark = 2 * static_cast<size_t>(step - kinds_.begin());
  return backend_.seconds(marks_[mark], marks_[mark + 1]);
}

// A step is timed by the call's first one, which is near: the origin may be far, and what is
// between is rounded by how long it is.
std::optional<CallTime> Sample::since(Event origin) const {
  if (!wanted_.timed() || first() == kinds_.size()) return {};
  const size_t shown = std::ranges::find_if(kinds_, &Kind::shown) - kinds_.begin();
  const Event near = marks_[2 * shown];
  const std::optional<double> at = backend_.seconds(origin, near);
  if (!at) return {};
  CallTime call{.begin = 0, .end = 0, .steps = {}, .left_out = 0};
  for (size_t i = 0; i < kinds_.size(); ++i) {
    const Kind& kind = kinds_[i];
    if (!kind.shown()) continue;
    const std::optional<Interval> step = interval(near, i);
    if (!step) return {};
    const double begin = *at + step->begin, end = *at + step->end;
    if (i == first()) call.begin = begin;
    if (!kind.is_extra) call.end = std::max(call.end, end);
    if (call.steps.size() < CallTime::kMaxSteps)
      call.steps.push_back({kind.name, kind.queue, begin, end});
    else
      ++call.left_out;
  }
  return call;
}

std::optional<codec::Difference> Sample::difference() const {
  if (!compared_) return {};
  return codec::total(comparison_.parts);
}

}  // namespace terse
