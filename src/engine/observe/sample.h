// The measurement of one call under way: when each step began and ended on its lane, and how far
// the result is from the exact one. Reused from call to call.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"

namespace terse {

class WallClock;

// Seconds. A phase's time is that in which at least one of its steps was under way; phases overlap.
struct PhaseTimes {
  double total = 0;  // from the first step's begin to the last one's end
  double encode = 0, communicate = 0, decode = 0;
};

// A step of a call, when it was under way on its lane; and a call as a whole, what NCCL did beside
// it not counted. Seconds since some event.
struct StepTime {
  const char* name;  // the plan's
  size_t queue;      // and its lane's number
  double begin, end;
};
struct CallTime {
  double begin, end;
  std::vector<StepTime> steps;  // the first kMaxSteps
  size_t left_out;              // of them

  static constexpr size_t kMaxSteps = 64;
};

// What a call is measured for.
struct Wanted {
  bool metered = false;   // its times count among those of its kind
  bool verified = false;  // it is compared with the native one
  bool raced = false;     // and so are their times
  bool traced = false;    // it is kept
  uint64_t number = 0;    // among the communicator's calls of all ranks; of one that is verified

  bool timed() const { return metered || raced || traced; }
};

class Sample {
 public:
  explicit Sample(Backend& backend) : backend_(backend) {}
  ~Sample();
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  // `clock`: by which a call that is kept is timed.
  void start(const plan::Plan& plan, const Wanted& wanted,
             std::shared_ptr<const WallClock> clock = nullptr);
  const Wanted& wanted() const { return wanted_; }
  std::shared_ptr<const WallClock> take_clock() { return std::move(clock_); }

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
  std::optional<double> native() const;  // seconds of the native call beside it, if there was one
  std::optional<CallTime> since(Event origin) const;
  std::optional<codec::Difference> difference() const;

 private:
  struct Interval {
    double begin, end;
  };
  struct Kind {  // of a step
    const char* name;
    plan::Lane lane;
    size_t queue;
    bool is_extra, verifies;

    bool shown() const { return !is_extra || verifies; }  // in a trace
  };

  void mark(size_t which, Stream lane);
  std::optional<Interval> interval(Event origin, size_t step) const;
  size_t first() const;
  double busy(plan::Lane lane);

  Backend& backend_;
  std::vector<Kind> kinds_;  // by step, for the plan may be gone when the call is done
  Wanted wanted_;
  std::shared_ptr<const WallClock> clock_;
  bool compared_ = false;
  std::vector<Event> marks_;              // two for each step
  std::vector<Interval> steps_, sorted_;  // by step; those of one lane
  Event end_ = nullptr;
  codec::Comparison comparison_{};
};

}  // namespace terse
