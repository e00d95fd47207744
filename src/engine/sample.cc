#include "engine/sample.h"

#include <algorithm>

namespace terse {

Sample::~Sample() {
  for (const Event mark : marks_) backend_.destroy_event(mark);
  if (end_ != nullptr) backend_.destroy_event(end_);
  backend_.release_visible(comparison_.parts);
}

void Sample::start(const plan::Plan& plan, bool timed, bool verified) {
  lanes_.clear();
  for (const plan::Step& step : plan.steps) lanes_.push_back(step.lane);
  timed_ = timed;
  compared_ = false;
  if (end_ == nullptr) end_ = backend_.create_timer();
  while (timed && marks_.size() < 2 * plan.steps.size()) marks_.push_back(backend_.create_timer());
  if (verified && comparison_.parts == nullptr)
    comparison_.parts = static_cast<codec::Difference*>(
        backend_.allocate_visible(codec::kDifferenceParts * sizeof(codec::Difference)));
}

void Sample::mark(size_t which, Stream lane) {
  if (timed_) backend_.record(marks_[which], lane);
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
    if (lanes_[i] == lane) sorted_.push_back(steps_[i]);
  std::ranges::sort(sorted_, {}, &Interval::begin);
  double sum = 0, until = 0;
  for (const Interval& step : sorted_) {
    sum += std::max(0.0, step.end - std::max(until, step.begin));
    until = std::max(until, step.end);
  }
  return sum;
}

std::optional<PhaseTimes> Sample::times() {
  if (!timed_) return {};
  steps_.clear();
  double end = 0;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const auto from = backend_.seconds(marks_[0], marks_[2 * i]);
    const auto to = backend_.seconds(marks_[0], marks_[2 * i + 1]);
    if (!from || !to) return {};
    steps_.push_back({std::max(0.0, *from), std::max(0.0, *to)});
    end = std::max(end, steps_.back().end);
  }
  return PhaseTimes{end, busy(plan::Lane::kEncode), busy(plan::Lane::kCommunicate),
                    busy(plan::Lane::kDecode)};
}

std::optional<codec::Difference> Sample::difference() const {
  if (!compared_) return {};
  return codec::total(comparison_.parts);
}

}  // namespace terse
