// What is counted and measured of one communicator's calls on this rank, by kind of call: the
// policy's rule, the collective, the scheme. Nothing here blocks a call: what a queue still has to
// measure is read at a later call, or at the communicator's end.
//
// Memory: a call's timing holds two events for each step of its plan, for each call under way.
#pragma once

#include <nccl.h>  // before terse.h, whose types then are NCCL's

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/distribution.h"
#include "engine/observe/sample.h"
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

// Of the calls of one kind.
struct Tally {
  CallKind kind;
  size_t calls = 0;
  Sent sent;
  size_t timed = 0;  // calls of which times are known; sums of theirs
  PhaseTimes times;
  double predicted = 0;          // the sum of what was predicted for those calls
  Distribution relative;         // the error of each call of which it is known
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

class Meter {
 public:
  // The settings outlive it.
  Meter(Backend& backend, const Settings& settings) : backend_(backend), settings_(settings) {}
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Whether a call that is not recorded in a graph also runs natively: of the calls of all ranks
  // the first one of its kind, and one in n, the same ones on every rank. Asked once for each call.
  bool verifies(const CallKind& kind, const CallNumber& number);
  // What to measure of such a call, which is timed by the same rule, over all calls of this rank;
  // null: nothing, or nothing can be.
  Sample* start(const plan::Plan& plan, const CallKind& kind, const CallNumber& number,
                bool verified) noexcept;
  // Counts a call that is enqueued, with what is measured of it (null: nothing).
  // `predicted`: its time, in seconds; 0: it was not.
  void count(const CallKind& kind, const Sent& sent, double predicted, Sample* sample);
  // A sample whose call has failed. finish() has been called for it.
  void drop(Sample* sample);

  // Reads what is done.
  void collect() noexcept;

  // Copies; empty when another thread has the meter, for long.
  std::vector<Tally> tallies();
  void add_to(terseStats_t& stats);

 private:
  static constexpr size_t kNoTally = static_cast<size_t>(-1);
  static constexpr size_t kMaxPending = 64;  // then calls are not timed until some are read

  struct Pending {
    Sample* sample;
    size_t tally;
    double predicted;
  };

  size_t tally_of(const CallKind& kind);
  void read(const Pending& pending);

  Backend& backend_;
  const Settings& settings_;
  std::vector<std::unique_ptr<Sample>> samples_;
  std::vector<Sample*> idle_;
  std::vector<Pending> pending_;            // the oldest first; few
  std::vector<CallKind> verified_, timed_;  // kinds of which a call has been
  std::mutex mutex_;                        // of tallies_, which a report reads at exit
  std::vector<Tally> tallies_;
};

}  // namespace terse
