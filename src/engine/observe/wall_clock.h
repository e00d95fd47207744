// Wall-clock time of events of a backend's streams, by the machine's clock (CLOCK_REALTIME): calls
// of all ranks are drawn on one axis, as near as the machines' clocks agree.
//
// CUDA gives the time between two events in milliseconds of single precision, which are 2 us apart
// after half a minute, and a quarter of a millisecond after an hour: a clock is replaced after a
// while.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace terse {

class WallClock {
 public:
  // Machine's time, in nanoseconds since 1970.
  using Now = int64_t (*)();
  static int64_t now();

  // Compares the backend's time with the machine's. Waits for a stream of its own.
  explicit WallClock(Backend& backend, Now now = WallClock::now);
  ~WallClock();
  WallClock(const WallClock&) = delete;
  WallClock& operator=(const WallClock&) = delete;

  // Event from which times are counted.
  Event origin() const { return origin_; }
  // Returns true if later calls need another clock, also as the machine's time was set anew.
  bool is_old() const;
  // Time so many seconds after origin(), in nanoseconds since 1970.
  int64_t at(double seconds) const { return at_ + static_cast<int64_t>(1e9 * seconds); }

 private:
  void compare(Stream stream);
  void destroy() noexcept;

  Backend& backend_;
  const Now now_;
  std::vector<Event> timers_;
  Event origin_ = nullptr;
  int64_t at_ = 0;
};

}  // namespace terse
