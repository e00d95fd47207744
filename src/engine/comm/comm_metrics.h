// What is counted and measured of a communicator's calls.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

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

  // For warnings. Return true once: for the first reduction, and for the first AllGather of so many
  // elements, of the first kMaxGathers sizes.
  bool is_first_reduction() { return !std::exchange(has_reduced_, true); }
  bool is_new_gather(size_t count) {
    if (std::ranges::find(gathers_, count) != gathers_.end()) return false;
    if (gathers_.size() >= kMaxGathers) return false;
    gathers_.push_back(count);
    return true;
  }

 private:
  static constexpr size_t kMaxGathers = 256;

  Counters counters_;
  Meter meter_;
  ErrorProbe error_probe_;
  uint64_t observed_calls_ = 0;
  bool has_reduced_ = false;
  std::vector<size_t> gathers_;
};

}  // namespace terse
