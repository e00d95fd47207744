// What the ranks of a communicator have agreed on (peers/agree.h): its number among all, and the
// schemes that may be used on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "policy/scheme.h"

namespace terse {

// Counts the communicators of this process, so that random numbers of messages differ between them
// and yet are the same in every run of the program: where that makes them one after the other.
uint64_t next_ordinal();

// What a communicator's leader is called: the number of rank 0's process in its job. Of the preload
// library another one, for a libterse.so in the same process counts its communicators, too.
uint64_t leader_of(uint64_t process);
void set_preloaded();

// Schemes but for their seeds: no two ranks draw the same numbers, so that these need not be alike.
class SchemeSet {
 public:
  void add(const Scheme& scheme);
  bool has(const Scheme& scheme) const;

 private:
  std::vector<Scheme> schemes_;
};

class Agreed {
 public:
  // Of any thread are number() and identity(), for reports.

  // Which of the communicators that its rank 0's process leads it is, alike on all ranks; empty:
  // they have not agreed.
  std::optional<uint64_t> number() const;
  // The same; 0 before.
  uint64_t ordinal() const { return ordinal_.load(std::memory_order_relaxed); }
  // That of messages' random numbers, which are to differ between communicators that others lead,
  // too.
  uint64_t rng_stream() const { return ordinal() + (leader_ << 32); }
  // The same without the communicator: which of the two libraries.
  uint64_t library() const { return rng_stream() & uint64_t{1} << 63; }
  // No other communicator's, anywhere. 0: the ranks have not agreed on anything.
  uint64_t identity() const { return identity_.load(std::memory_order_acquire); }

  // Whether the ranks have agreed on the settings, or are about to.
  bool introduced() const { return introduced_; }
  // They are about to; and then they have, or have not.
  void begin() { introduced_ = true; }
  // `leader`: rank 0's leader_of().
  void conclude(uint64_t ordinal, uint64_t leader, uint64_t identity);
  void withdraw() { introduced_ = false; }

  // The ordinal that rank 0 proposes: one from `next` at the first time, and that one again.
  template <class Next>
  uint64_t propose(const Next& next) {
    if (!proposed_) proposed_ = next();
    return *proposed_;
  }

  // A scheme: among all ranks, or with one peer for messages, for which the former serves too.
  void add(const Scheme& scheme, std::optional<int> peer);
  bool has(const Scheme& scheme, std::optional<int> peer) const;

 private:
  std::atomic<uint64_t> ordinal_{0};
  uint64_t leader_ = 0;
  std::atomic<uint64_t> identity_{0};
  bool introduced_ = false;
  std::optional<uint64_t> proposed_;
  SchemeSet of_all_;
  std::map<int, SchemeSet> with_peer_;
};

}  // namespace terse
