// Order of a plan's steps: what its queues and `after` give, and nothing else.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "plan/plan.h"

namespace terse::plan {

// Takes the steps of a plan one by one.
class Order {
 public:
  void add(const Step& step) {
    Front front = start(step);
    front[step.queue()] = ends_.size() + 1;
    ends_.push_back(front);
    queues_.push_back(step.queue());
    last_[step.queue()] = ends_.size();
  }

  // Last step known to be done of each queue, counted from 1; 0: none.
  using Front = std::array<size_t, kLanes>;

  // When `step`, the next one, starts.
  Front start(const Step& step) const {
    Front front{};
    join(front, last_[step.queue()]);
    for (const size_t before : step.after) join(front, before + 1);
    return front;
  }

  // Returns true if the step numbered `earlier` is done by then.
  bool is_done(size_t earlier, const Front& start) const {
    return earlier < ends_.size() && start[queues_[earlier]] > earlier;
  }
  bool is_done(size_t earlier, const Step& step) const { return is_done(earlier, start(step)); }

 private:
  void join(Front& front, size_t number) const {
    if (number == 0 || number > ends_.size()) return;
    const Front& other = ends_[number - 1];
    for (size_t q = 0; q < kLanes; ++q) front[q] = std::max(front[q], other[q]);
  }

  std::vector<Front> ends_;  // what is known when each step ends, itself included
  std::vector<size_t> queues_;
  Front last_{};  // of each queue
};

// Returns true if each step follows the one before it, so that nothing is lost if one queue does
// them all. Headers are too small to matter.
inline bool is_chain(const std::vector<Step>& steps) {
  Order order;
  std::optional<size_t> last;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (last && !steps[i].header && !order.is_done(*last, steps[i])) return false;
    if (!steps[i].header) last = i;
    order.add(steps[i]);
  }
  return true;
}

}  // namespace terse::plan
