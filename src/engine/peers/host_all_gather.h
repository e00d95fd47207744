// A few words of each rank to all the others, outside of any plan: how the ranks of a communicator
// come to agree. It blocks the caller, and so happens where something is new, never call by call.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "engine/comm/communicator.h"

namespace terse {

// How long ranks wait for each other: for TERSE_TIMEOUT, where one may not use terse or go by other
// settings; or ten times as long, where all do, and one is only late: it may write a checkpoint.
enum class Timeout { kInit, kLateRank };

// What a communicator's control buffer has room for, from each rank.
constexpr size_t kWordsBytes = 768;

class HostAllGather {
 public:
  // For up to `bytes` bytes from each rank, or, with a peer, of two ranks that name each other.
  HostAllGather(Communicator& communicator, size_t bytes, std::optional<int> peer = {});
  // Of all ranks, by the communicator's control buffer, for up to kWordsBytes: it takes no memory,
  // and so goes through where there is none.
  explicit HostAllGather(Communicator& communicator);
  ~HostAllGather();
  HostAllGather(const HostAllGather&) = delete;
  HostAllGather& operator=(const HostAllGather&) = delete;

  // What this rank says at the next run_all_gathers(): the same number of bytes on all ranks.
  void post(std::span<const char> words);

  // What rank `rank` said at the last one; with a peer, only the peer.
  std::span<const char> received(int rank) const { return control_buffer_.received(slot_of(rank)); }

 private:
  friend void run_all_gathers(std::span<HostAllGather* const> exchanges, Timeout timeout);
  friend void drain_all_gathers(std::span<HostAllGather* const> exchanges) noexcept;
  using Clock = std::chrono::steady_clock;
  int slot_of(int rank) const { return peer_ ? 0 : rank; }
  void start() const;
  bool wait(Clock::time_point limit) const;
  void finish(Clock::time_point start, Timeout timeout);
  void leave() noexcept;  // after a failure

  Communicator& c_;
  const std::optional<int> peer_;
  std::unique_ptr<ControlBuffer> own_;  // null: it is the communicator's
  ControlBuffer& control_buffer_;
};

// A control buffer for up to `most` bytes from each rank of the communicator, or from a peer.
// Throws Error, which names the communicator.
std::unique_ptr<ControlBuffer> make_control_buffer(const Communicator& communicator, size_t most,
                                                   std::optional<int> peer = {});

// Does the exchanges of different communicators together. Throws Error when NCCL fails, when the
// communicator is aborted, or, by its timeout, with ncclSystemError when a rank does not come; the
// communicator then is good for nothing but to be aborted.
void run_all_gathers(std::span<HostAllGather* const> exchanges, Timeout timeout);

// After words on which the ranks do not agree, which all of them have seen: they meet once more, so
// that nobody tears the communicator down while another one still waits for the words. What becomes
// of this meeting does not matter. A thread's exchanges part together, as they met.
void drain_all_gathers(std::span<HostAllGather* const> exchanges) noexcept;

}  // namespace terse
