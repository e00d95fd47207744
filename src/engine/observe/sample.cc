#include "engine/observe/sample.h"

#include <algorithm>

namespace terse {

Sample::~Sample() {
  for (const Event mark : marks_) backend_.destroy_event(mark);
  if (end_ != nullptr) backend_.destroy_event(end_);
  backend_.release_visible(comparison_.parts);
}

void Sample::start(const plan::Plan& plan, bool timed, bool verified) {
  lanes_.clear();
  for (const plan::Step& step : plan.steps)
    lanes_.push_back(step.beside ? std::nullopt : std::optional(step.lane));
  timed_ = timed;
  compared_ = false;
  if (end_ == nullptr) end_ = backend_.create_timer();
  while (timed && marks_.size() < 2 * plan.steps.size()) marks_.push_back(backend_.create_timer());
  if (verified && comparison_.parts == nullptr)
    comparison_.parts = static_cast<codec::Difference*>(
        backend_.allocate_visible(codec::kDifferenceParts * sizeof(codec::Difference)));
}

void Sample::mark(size_t which, Stream lane) {
  if (timed_ && lanes_[which / 2]) backend_.record(marks_[which], lane);
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
  steps_.assign(lanes_.size(), {});
  const auto first =
      std::ranges::find_if(lanes_, [](const auto& lane) { return lane.has_value(); });
  const size_t begin = 2 * static_cast<size_t>(first - lanes_.begin());
  double end = 0;
  for (size_t i = begin / 2; i < lanes_.size(); ++i) {
    if (!lanes_[i]) continue;
    const auto from = backend_.seconds(marks_[begin], marks_[2 * i]);
    const auto to = backend_.seconds(marks_[begin], marks_[2 * i + 1]);
    if (!from || !to) return {};
    steps_[i] = {std::max(0.0, *from), std::max(0.0, *to)};
    end = std::max(end, steps_[i].end);
  }
  return PhaseTimes{end, busy(plan::Lane::kEncode), busy(plan::Lane::kCommunicate),
                    busy(plan::Lane::kDecode)};
}

std::optional<codec::Difference> Sample::difference() const {
  if (!compared_) return {};
  return codec::total(comparison_.parts);
}

}  // namespace terse
