// What is counted and measured of a communicator's calls.
#pragma once

#include "engine/comm/counters.h"
#include "engine/observe/error_probe.h"
#include "engine/observe/meter.h"

namespace terse {

class CommMetrics {
 public:
  CommMetrics(Backend& backend, const Settings& settings)
      : meter_(backend, settings), error_probe_(backend) {}

  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }
  Meter& meter() { return meter_; }

  // Of observed calls: their number so far, and the errors that their schemes would make.
  uint64_t observed_calls() const { return observed_calls_; }
  void count_observed_call() { ++observed_calls_; }
  ErrorProbe& error_probe() { return error_probe_; }

 private:
  Counters counters_;
  Meter meter_;
  ErrorProbe error_probe_;
  uint64_t observed_calls_ = 0;
};

}  // namespace terse
