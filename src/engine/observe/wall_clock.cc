#include "engine/observe/wall_clock.h"

#include <chrono>
#include <cstdlib>
#include <limits>

namespace terse {
namespace {

constexpr size_t kTries = 5;
constexpr int64_t kServes = 30'000'000'000;  // nanoseconds

}  // namespace

int64_t WallClock::now() {
  using std::chrono::nanoseconds, std::chrono::system_clock;
  return std::chrono::duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

WallClock::WallClock(Backend& backend, Now now) : backend_(backend), now_(now) {
  Stream stream = nullptr;
  try {
    while (timers_.size() < kTries) timers_.push_back(backend.create_timer());
    stream = backend.create_stream(nullptr);
    compare(stream);
  } catch (...) {
    if (stream != nullptr) backend.destroy_stream(stream);
    destroy();
    throw;
  }
  backend.destroy_stream(stream);
}

WallClock::~WallClock() { destroy(); }

bool WallClock::is_old() const { return std::abs(now_() - at_) > kServes; }

// An event comes between the times before and after it, and that with the least between them is
// known best.
void WallClock::compare(Stream stream) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Event timer : timers_) {
    const int64_t before = now_();
    backend_.record(timer, stream);
    backend_.synchronize(stream);
    const int64_t between = now_() - before;
    if (between >= least) continue;
    least = between;
    origin_ = timer;
    at_ = before + between / 2;
  }
}

void WallClock::destroy() noexcept {
  for (const Event timer : timers_) backend_.destroy_event(timer);
}

}  // namespace terse
