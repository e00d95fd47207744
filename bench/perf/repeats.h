// How often calls are timed, by what they take. Seconds may be any, also more than an int counts.
#pragma once

#include <algorithm>

namespace terse::perf {

constexpr int kMaxCalls = 50;  // in one measurement
constexpr int kRounds = 3;     // of all ways of a call, or fewer, of which the median counts

// Calls, of `one` second each, that the seconds have room for.
inline int calls_within(double seconds, double one) {
  return static_cast<int>(std::min(seconds / one, double{kMaxCalls}));
}

// Rounds, of `all` seconds each, with one to spare: at least one.
inline int rounds_within(double seconds, double all) {
  return static_cast<int>(std::clamp(seconds / all - 1, 1.0, double{kRounds}));
}

}  // namespace terse::perf
