#include "engine/peers/wait.h"

#include <chrono>
#include <functional>

namespace terse {
namespace {

void wait_until(const Communicator& c, const std::function<bool()>& done) {
  const std::chrono::seconds longest(10 * c.settings.timeout_seconds);
  if (!c.wait_until(done, std::chrono::steady_clock::now() + longest))
    c.fail(
        ncclSystemError,
        "what was enqueued before an AllGather of differences was not done within {} s (10 times "
        "TERSE_TIMEOUT)",
        longest.count());
}

}  // namespace

Stream lane_after_all(Communicator& c, Stream caller) {
  StreamSet& track = c.memory().stream_sets().of(caller);
  const Stream lane = track.lanes().front();
  if (caller != nullptr || !c.backend.null_stream_is_synchronous()) {
    c.backend.record(track.caller_event(), caller);
    c.backend.wait(lane, track.caller_event());
  }
  if (track.has_prior_work) c.backend.wait(lane, track.finished_event());
  return lane;
}

void wait_for(const Communicator& c, Stream lane) {
  wait_until(c, [&] { return c.backend.idle(lane); });
}

void wait_for_all(const Communicator& c) {
  wait_until(c, [&] { return c.memory().stream_sets().idle(); });
}

}  // namespace terse
