// A few words of each rank to all the others, outside of any plan: how the ranks of a communicator
// come to agree. It blocks the caller, and so happens where something is new, never call by call.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "engine/comm/communicator.h"

namespace terse {

// How long ranks wait for each other: for TERSE_TIMEOUT, where one may not use terse or go by other
// settings; or ten times as long, where all do, and one is only late: it may write a checkpoint.
enum class Patience { kUsual, kLong };

class Exchange {
 public:
  // For `bytes` bytes from each rank, or, with a peer, of two ranks that name each other.
  Exchange(Communicator& communicator, size_t bytes, std::optional<int> peer = {});
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // What this rank says at the next meet(): `bytes` bytes.
  void say(std::span<const char> words);

  // Whether nothing of the last one still waits.
  bool idle() const { return c_.backend.idle(stream_); }

  // What rank `rank` said at the last one; with a peer, only the peer.
  std::span<const char> words(int rank) const;

 private:
  friend void meet(std::span<Exchange* const> exchanges, Patience patience);
  friend void part(Exchange& exchange) noexcept;
  using Clock = std::chrono::steady_clock;
  void start() const;
  bool wait(Clock::time_point limit) const;
  void finish(Clock::time_point start, Patience patience);
  void leave() noexcept;  // after a failure
  bool has_ended() const noexcept;
  size_t place(int rank) const { return bytes_ * static_cast<size_t>(rank); }

  Communicator& c_;
  const size_t bytes_;  // of each rank: a mark, and its words
  const std::optional<int> peer_;
  std::vector<char> all_;  // by rank
  Stream stream_ = nullptr;
  char* memory_ = nullptr;  // the backend's: by rank, and then this rank's own
};

// Does the exchanges of different communicators together. Throws Error when NCCL fails, when the
// communicator is aborted, or, by its patience, with ncclSystemError when a rank does not come; the
// communicator then is good for nothing but to be aborted.
void meet(std::span<Exchange* const> exchanges, Patience patience);

// After words on which the ranks do not agree, which all of them have seen: they meet once more, so
// that nobody tears the communicator down while another one still waits for the words. What becomes
// of this meeting does not matter.
void part(Exchange& exchange) noexcept;

}  // namespace terse
