// What is counted and measured of one communicator's calls on this rank, by kind of call: the
// policy's rule, the collective, the scheme. Nothing here blocks a call: what a queue still has to
// measure is read at a later call, or at the communicator's end.
//
// Memory: a call's timing holds two events for each step of its plan, for each call under way; and
// where there is to be a report, the last calls are kept that TERSE_TRACE asks for.
#pragma once

#include <nccl.h>  // before terse.h, whose types then are NCCL's

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/distribution.h"
#include "base/downsampled_series.h"
#include "engine/observe/sample.h"
#include "engine/observe/wall_clock.h"
#include "plan/collective.h"
#include "plan/topology.h"
#include "policy/settings.h"
#include "terse/terse.h"

namespace terse {

struct CallKind {
  uint32_t rule;  // of the policy, or kNoRule
  plan::Collective collective;
  Scheme scheme;

  bool operator==(const CallKind&) const = default;
};

// What a call sent to its peers, and what an uncompressed one would have sent.
struct Sent {
  plan::Traffic raw, wire;

  Sent& operator+=(const Sent& other) {
    raw += other.raw;
    wire += other.wire;
    return *this;
  }
};

// Calls that also ran natively, of which both times are known, but for the first of a kind, which
// makes what later ones have: seconds, summed over them.
struct BothTimes {
  size_t calls = 0;
  double native = 0, compressed = 0;
};

// Of the calls of one kind.
struct Tally {
  CallKind kind;
  size_t calls = 0;
  Sent sent;
  size_t timed = 0;  // calls of which times are known; sums of theirs
  PhaseTimes times;
  size_t foreseen = 0;   // those of them that auto has predicted
  double predicted = 0;  // the sum of its times for these
  BothTimes both;
  Distribution relative;         // the error of each call of which it is known
  DownsampledSeries errors;      // the finite ones of them, by the calls' numbers
  codec::Difference difference;  // sums over those
};

// ||value - exact|| / ||exact||; 0 where nothing differs, infinite where the exact result is zero.
double relative_error(const codec::Difference& difference);

// Where a call stands among those of its communicator.
struct CallNumber {
  uint64_t communicator;               // which is that, alike on all ranks
  uint64_t sequence;                   // among this rank's
  std::optional<uint64_t> collective;  // among those of all ranks; empty: it is none of them
};

// A call that is enqueued, as it is counted.
struct CountedCall {
  CallKind kind;
  Sent sent;
  double predicted = 0;  // its time, in seconds; 0: it was not
  size_t elements = 0;   // NCCL's count
  codec::Dtype dtype = codec::Dtype::kFloat32;
};

// One of the last calls; times in nanoseconds since 1970 (wall_clock.h).
struct TracedCall {
  CountedCall call;
  struct Step {
    const char* name;
    size_t queue;
    int64_t begin, end;
  };
  int64_t begin, end;
  std::vector<Step> steps;
  size_t left_out;  // steps
};

class Meter {
 public:
  // The settings outlive it.
  Meter(Backend& backend, const Settings& settings, WallClock::Now now = WallClock::now)
      : backend_(backend), settings_(settings), now_(now) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Whether a call that is not recorded in a graph also runs natively: of the calls of all ranks
  // the first one of its kind, and one in n, the same ones on every rank. Asked once for each call.
  bool verifies(const CallKind& kind, const CallNumber& number);
  // What to measure of such a call, which is timed by the same rule, over all calls of this rank;
  // null: nothing, or nothing can be.
  Sample* start(const plan::Plan& plan, const CallKind& kind, const CallNumber& number,
                bool verified) noexcept;
  // Counts a call, with what is measured of it (null: nothing).
  void count(const CountedCall& call, Sample* sample);
  // A sample whose call has failed. finish() has been called for it.
  void drop(Sample* sample);

  // Reads what is done. Any thread, beside the communicator's own.
  void collect() noexcept;

  // Copies; empty when another thread has the meter, for long.
  std::vector<Tally> tallies();
  std::vector<TracedCall> traced();
  void add_to(terseStats_t& stats);

 private:
  static constexpr size_t kNoTally = static_cast<size_t>(-1);
  static constexpr size_t kMaxPending = 64;  // then calls are not timed until some are read

  struct Pending {
    Sample* sample;
    size_t tally;
    double predicted;
    std::optional<CountedCall> traced;
    std::shared_ptr<const WallClock> clock;  // of one that is traced: that it has begun under
  };

  void read_done() noexcept;  // under measuring_
  Wanted wanted(const CallKind& kind, const CallNumber& number, bool verified);
  bool has_run(const CallKind& kind) const;
  void renew_clock();
  size_t tally_of(const CallKind& kind);
  void read(const Pending& pending);
  void trace(const CountedCall& call, const CallTime& time, const WallClock& clock);

  Backend& backend_;
  const Settings& settings_;
  const WallClock::Now now_;
  std::mutex measuring_;  // of samples; taken before the other
  std::vector<std::unique_ptr<Sample>> samples_;
  std::vector<Sample*> idle_;
  std::vector<Pending> pending_;            // the oldest first; few
  std::vector<CallKind> verified_, timed_;  // kinds of which a call has been
  std::mutex mutex_;                        // of tallies_, which a report reads at exit
  std::vector<Tally> tallies_;
  std::deque<TracedCall> traced_;           // under the same
  std::shared_ptr<const WallClock> clock_;  // of calls that begin; null: none was kept yet
};

}  // namespace terse
