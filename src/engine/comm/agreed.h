// Agreements of a communicator's ranks (peers/agree.h): its number, and the schemes that may be
// used on it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "policy/scheme.h"

namespace terse {

// Counts the communicators of this process. Random numbers of messages differ between communicators
// by it, and are the same in every run of a program that makes them one after the other.
uint64_t next_ordinal();

// Number of a communicator's leader, the process of rank 0: its number in the job. The preload
// library's differ from libterse's, which counts communicators of its own in the same process.
uint64_t leader_of(uint64_t process);
void set_preloaded();

// Schemes without their seeds, which ranks need not have alike.
class SchemeSet {
 public:
  void add(const Scheme& scheme);
  bool has(const Scheme& scheme) const;

 private:
  std::vector<Scheme> schemes_;
};

class Agreed {
 public:
  // number() and identity() may be called from any thread, for reports.

  // Number of the communicator among those that its leader leads, alike on all ranks. Empty: the
  // ranks have not agreed.
  std::optional<uint64_t> number() const;
  // number(); 0 before the ranks agree.
  uint64_t ordinal() const { return ordinal_.load(std::memory_order_relaxed); }
  // Key of messages' random numbers, which differ between communicators of other leaders, too.
  uint64_t rng_stream() const { return ordinal() + (leader_ << 32); }
  // Part of rng_stream() that names the library: the preload library or libterse.
  uint64_t library() const { return rng_stream() & uint64_t{1} << 63; }
  // Number that no other communicator has, anywhere. 0: the ranks have not agreed.
  uint64_t identity() const { return identity_.load(std::memory_order_acquire); }

  // Returns true if the ranks have agreed on the settings, or are about to.
  bool introduced() const { return introduced_; }
  // Transitions: begin(), then conclude() or withdraw().
  void begin() { introduced_ = true; }
  // `leader`: leader_of() of rank 0.
  void conclude(uint64_t ordinal, uint64_t leader, uint64_t identity);
  void withdraw() { introduced_ = false; }

  // Ordinal that rank 0 proposes: next() at the first call, and the same again.
  template <class Next>
  uint64_t propose(const Next& next) {
    if (!proposed_) proposed_ = next();
    return *proposed_;
  }

  // Adds a scheme agreed among all ranks, or with one peer, for messages. One of all ranks serves
  // for messages, too.
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
