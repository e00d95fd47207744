// The measurement of one call under way: when each step began and ended on its lane, and how far
// the result is from the exact one. Reused from call to call.
#pragma once

#include <optional>
#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"

namespace terse {

// Seconds. A phase's time is that in which at least one of its steps was under way; phases overlap.
struct PhaseTimes {
  double total = 0;  // from the first step's begin to the last one's end
  double encode = 0, communicate = 0, decode = 0;
};

class Sample {
 public:
  explicit Sample(Backend& backend) : backend_(backend) {}
  ~Sample();
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  void start(const plan::Plan& plan, bool timed, bool verified);

  // Around the enqueueing of a step.
  void before(size_t step, Stream lane) { mark(2 * step, lane); }
  void after(size_t step, Stream lane) { mark(2 * step + 1, lane); }

  // Enqueues the comparison of the result with the exact one.
  void compare(Stream stream, const void* value, const void* exact, size_t count,
               codec::Dtype dtype);

  // Marks the end of it all.
  void finish(Stream stream);

  // Whether the end has come; does not block, and nor do the others, which are for then.
  bool done() const;
  std::optional<PhaseTimes> times();
  std::optional<codec::Difference> difference() const;

 private:
  struct Interval {
    double begin, end;
  };

  void mark(size_t which, Stream lane);
  double busy(plan::Lane lane);

  Backend& backend_;
  // By step, for the plan may be gone when the call is done; empty: not timed.
  std::vector<std::optional<plan::Lane>> lanes_;
  bool timed_ = false, compared_ = false;
  std::vector<Event> marks_;              // two for each step
  std::vector<Interval> steps_, sorted_;  // by step; those of one lane
  Event end_ = nullptr;
  codec::Comparison comparison_{};
};

}  // namespace terse
