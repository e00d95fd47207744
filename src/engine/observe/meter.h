// Counts and times of one communicator's calls on this rank, by kind of call: the policy's rule,
// the collective, the scheme. Never blocks a call: measurements are read at a later call, or at the
// communicator's end.
//
// Memory: two events for each step of each call under way, three for a traced native one; and, for
// a report, the last calls that TERSE_TRACE asks for.
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

// Message of an observed call.
struct MessageKind {
  ncclDataType_t datatype;
  ncclRedOp_t op;  // ncclNumOps: an operator of the program's
  size_t bytes;    // of the whole message
  bool in_place;

  bool operator==(const MessageKind&) const = default;
};

struct CallKind {
  uint32_t rule;  // of the policy, or kNoRule
  plan::Collective collective;
  Scheme scheme;
  std::optional<MessageKind> message = {};  // of observed calls, for the first kinds of them

  bool operator==(const CallKind&) const = default;
};

// Bytes that a call sent to its peers, and that an uncompressed one would have sent.
struct Sent {
  plan::Traffic raw, wire;

  Sent& operator+=(const Sent& other) {
    raw += other.raw;
    wire += other.wire;
    return *this;
  }
};

// Times of calls that also ran natively, summed in seconds, without the first call of a kind, which
// allocates for later ones.
struct BothTimes {
  size_t calls = 0;
  double native = 0, compressed = 0;
};

// Sums over the calls of one kind.
struct Tally {
  CallKind kind;
  size_t calls = 0, fused = 0;
  Sent sent;
  size_t timed = 0;  // calls with known times, and their sums
  PhaseTimes times;
  size_t foreseen = 0;          // timed calls that were predicted
  double predicted = 0;         // sum of their predicted times
  double predicted_native = 0;  // the same without a scheme; of observed calls
  BothTimes both;
  Distribution relative;         // error of each verified call
  DownsampledSeries errors;      // the finite errors, by the calls' numbers
  codec::Difference difference;  // sums over the verified calls
};

// |value - exact|| / ||exact||; 0 if they are equal, infinite if the exact result is zero.
double relative_error(const codec::Difference& difference);

// Numbers of a call on its communicator.
struct CallNumber {
  uint64_t communicator;               // its number, alike on all ranks
  uint64_t sequence;                   // among this rank's
  std::optional<uint64_t> collective;  // among those of all ranks; empty: not one of them
};

// Enqueued call, to be counted.
struct CountedCall {
  CallKind kind;
  Sent sent;
  double predicted = 0;         // seconds; 0: not predicted
  double predicted_native = 0;  // of an observed call, without its scheme
  size_t elements = 0;          // NCCL's count
  ncclDataType_t dtype = ncclFloat32;
  bool is_fused = false;
  std::optional<int> bypass = {};  // a TERSE_BYPASS reason: it went to NCCL, and is only traced
};

// Recent call; times in nanoseconds since 1970 (wall_clock.h).
struct TracedCall {
  CountedCall call;
  struct Step {
    const char* name;
    size_t queue;
    int64_t begin, end;
  };
  int64_t begin, end;
  std::vector<Step> steps;
  size_t left_out;  // steps beyond the trace's room
};

class Meter {
 public:
  // The settings outlive it.
  Meter(Backend& backend, const Settings& settings, WallClock::Now now = WallClock::now)
      : backend_(backend), settings_(settings), now_(now) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Returns true if a call that is not recorded in a graph also runs natively: of calls of all
  // ranks the first of its kind, and one in n, alike on every rank. Asked once for each call.
  bool verifies(const CallKind& kind, const CallNumber& number);
  // Returns true if calls of the kind were counted.
  bool knows(const CallKind& kind);
  size_t kinds();
  // Begins to measure a call, which is timed by the same rule over all calls of this rank. Returns
  // null if nothing is measured.
  Sample* start(const plan::Plan& plan, const CallKind& kind, const CallNumber& number,
                bool verified) noexcept;
  // Returns true if calls are kept.
  bool traces() const { return settings_.trace != 0 && !settings_.report.empty(); }
  // Begins to measure a call that goes to NCCL, for the trace alone. Returns null if there is none.
  Sample* start_native(const plan::Plan& plan) noexcept;
  // Counts a call, with its sample (null: none). A native one is kept for the trace alone.
  void count(const CountedCall& call, Sample* sample);
  // Drops the sample of a failed call, for which finish() was called. `native`: start_native()'s.
  void drop(Sample* sample, bool native = false);

  // Reads finished samples. May be called from any thread.
  void collect() noexcept;

  // Copies; empty if another thread holds the meter for long.
  std::vector<Tally> tallies();
  std::vector<TracedCall> traced();
  void add_to(terseStats_t& stats);

 private:
  static constexpr size_t kNoTally = static_cast<size_t>(-1);
  // Max calls under way that are timed; of observed ones, whose times are to add up, more.
  static constexpr size_t kMaxPending = 64, kMaxObserved = 4096;

  struct Pending {
    Sample* sample;
    size_t tally;
    double predicted, predicted_native;
    std::optional<CountedCall> traced;
    std::shared_ptr<const WallClock> clock;  // of a traced call: the clock when it began
  };

  void read_done() noexcept;  // with measuring_ held
  void read_done(std::vector<Pending>& pending) noexcept;
  Wanted wanted(const CallKind& kind, const CallNumber& number, bool verified);
  template <class Decide>
  Sample* start_if(const plan::Plan& plan, const Decide& wanted) noexcept;
  bool has_run(const CallKind& kind) const;
  void renew_clock();
  size_t tally_of(const CallKind& kind);
  void read(const Pending& pending);
  void trace(const CountedCall& call, const CallTime& time, const WallClock& clock);

  Backend& backend_;
  const Settings& settings_;
  const WallClock::Now now_;
  std::mutex measuring_;  // guards samples; locked before mutex_
  std::vector<std::unique_ptr<Sample>> samples_;
  std::vector<Sample*> idle_;
  std::vector<Pending> pending_, natives_;  // the oldest first; native calls take no other's room
  std::vector<CallKind> verified_, timed_;  // kinds that had a call
  std::mutex mutex_;                        // guards tallies_, which a report reads at exit
  std::vector<Tally> tallies_;
  std::deque<TracedCall> traced_;           // guarded by mutex_
  std::shared_ptr<const WallClock> clock_;  // of calls that begin; null: no call was kept yet
};

}  // namespace terse
