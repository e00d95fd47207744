// What time it was at an event of a backend's queue, by the machine's own clock (CLOCK_REALTIME),
// so that the calls of all ranks can be drawn on one axis: as near as the machines' clocks agree.
//
// CUDA gives the time between two events in milliseconds of single precision, which are 2 us apart
// after half a minute, and a quarter of a millisecond after an hour. So a clock serves for a while,
// and is followed by another one.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"

namespace terse {

class WallClock {
 public:
  // The machine's time, in nanoseconds since 1970.
  using Now = int64_t (*)();
  static int64_t now();

  // Compares the backend's time with the machine's. Waits for a queue of its own.
  explicit WallClock(Backend& backend, Now now = WallClock::now);
  ~WallClock();
  WallClock(const WallClock&) = delete;
  WallClock& operator=(const WallClock&) = delete;

  // The event that times are given since.
  Event origin() const { return origin_; }
  // Whether calls from now on are to have another one; so it is when the machine's time was set
  // anew.
  bool is_old() const;
  // The time so many seconds after it, in nanoseconds since 1970.
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
