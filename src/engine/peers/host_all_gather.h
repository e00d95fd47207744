// All-gather of a few words from each rank, outside of any plan, by which the ranks of a
// communicator agree. It blocks the caller, and so is used for what is new, never call by call.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>

#include "engine/comm/communicator.h"

namespace terse {

// Time that ranks wait for each other. kInit: TERSE_TIMEOUT, while a rank may not use terse, or
// with other settings. kLateRank: ten times as long, as a rank that is known to use terse may be
// late, writing a checkpoint.
enum class Timeout { kInit, kLateRank };

// Bytes from each rank that a communicator's control buffer has room for, in 64 with the buffer's
// mark; and the most, of a communicator with few ranks.
constexpr size_t kMinWordsBytes = 63, kMaxWordsBytes = 832;

// Same, of a communicator of so many ranks, whose buffer stays small.
constexpr size_t words_bytes(int ranks) {
  constexpr size_t kBufferBytes = size_t{1} << 20;
  return std::clamp(kBufferBytes / static_cast<size_t>(ranks), kMinWordsBytes, kMaxWordsBytes);
}

class HostAllGather {
 public:
  // Makes room for up to `bytes` bytes from each rank, or, with a peer, of two ranks that name each
  // other.
  HostAllGather(Communicator& communicator, size_t bytes, std::optional<int> peer = {});
  // Takes up to words_bytes() from all ranks, in the communicator's control buffer: takes no
  // memory, and so works without any.
  explicit HostAllGather(Communicator& communicator);
  ~HostAllGather();
  HostAllGather(const HostAllGather&) = delete;
  HostAllGather& operator=(const HostAllGather&) = delete;

  // Sets this rank's words for the next run_all_gathers(): as many bytes on all ranks.
  void post(std::span<const char> words);

  // Words of a rank at the last one; with a peer, only the peer's.
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

// Control buffer for up to `most` bytes from each rank of the communicator, or from a peer. Throws
// Error, which names the communicator.
std::unique_ptr<ControlBuffer> make_control_buffer(const Communicator& communicator, size_t most,
                                                   std::optional<int> peer = {});

// Runs the all-gathers of different communicators together. Throws Error if NCCL fails, if a
// communicator is aborted, or, with ncclSystemError, if a rank does not come in time; then the
// communicator can only be aborted.
void run_all_gathers(std::span<HostAllGather* const> exchanges, Timeout timeout);

// Runs once more after words on which the ranks do not agree, which all have seen, so that no rank
// tears the communicator down while another one still waits for the words. Ignores the result. A
// thread drains together what it ran together.
void drain_all_gathers(std::span<HostAllGather* const> exchanges) noexcept;

}  // namespace terse
