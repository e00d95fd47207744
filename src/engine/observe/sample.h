// Measurement of one call under way: when each step began and ended on its lane, and the error of
// the result. Reused from call to call.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"

namespace terse {

class WallClock;

// Seconds. A phase lasts while at least one of its steps is under way; phases overlap. A fused call
// has no phases.
struct PhaseTimes {
  double total = 0;  // from the first step's begin to the last one's end
  double encode = 0, communicate = 0, decode = 0;
  double fused = 0;  // of a fused call: the total

  PhaseTimes& operator+=(const PhaseTimes& other);
};

// Times of a step on its lane, and of a call as a whole without native extras. Seconds since some
// event.
struct StepTime {
  const char* name;  // in the plan
  size_t queue;      // number of its lane
  double begin, end;
};
struct CallTime {
  double begin, end;
  std::vector<StepTime> steps;  // the first kMaxSteps
  size_t left_out;              // steps beyond

  static constexpr size_t kMaxSteps = 64;
};

// Purposes of a measurement.
struct Wanted {
  bool metered = false;   // counts among those of its kind
  bool verified = false;  // compared with the native result
  bool raced = false;     // times are compared, too
  bool traced = false;    // kept for the trace
  uint64_t number = 0;    // of a verified call among those of all ranks

  bool timed() const { return metered || raced || traced; }
};

class Sample {
 public:
  explicit Sample(Backend& backend) : backend_(backend) {}
  ~Sample();
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  // `clock`: times a traced call.
  void start(const plan::Plan& plan, const Wanted& wanted,
             std::shared_ptr<const WallClock> clock = nullptr);
  const Wanted& wanted() const { return wanted_; }
  std::shared_ptr<const WallClock> take_clock() { return std::move(clock_); }

  // Called around the enqueueing of a step.
  void before(size_t step, Stream lane) { mark(2 * step, lane); }
  void after(size_t step, Stream lane) { mark(2 * step + 1, lane); }

  // Enqueues the comparison of the result with the exact one.
  void compare(Stream stream, const void* value, const void* exact, size_t count,
               codec::Dtype dtype);

  // Marks the end of the call.
  void finish(Stream stream);

  // Returns true if the call has ended; does not block. The functions below are for a call that
  // has.
  bool done() const;
  std::optional<PhaseTimes> times();
  std::optional<double> native() const;  // seconds of the native call; empty: there was none
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

    bool shown() const { return !is_extra || verifies; }  // is in a trace
  };

  void mark(size_t which, Stream lane);
  std::optional<Interval> interval(Event origin, size_t step) const;
  size_t first() const;
  double busy(plan::Lane lane);

  Backend& backend_;
  std::vector<Kind> kinds_;  // by step, as the plan may be gone when the call is done
  Wanted wanted_;
  std::shared_ptr<const WallClock> clock_;
  bool is_fused_ = false;
  bool compared_ = false;
  std::vector<Event> marks_;              // two for each step
  std::vector<Interval> steps_, sorted_;  // by step; those of one lane
  Event end_ = nullptr;
  codec::Comparison comparison_{};
};

}  // namespace terse
