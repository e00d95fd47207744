// A queue and memory for a few words of each rank, by which the ranks of a communicator tell each
// other something (peers/host_all_gather.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace terse {

class ControlBuffer {
 public:
  // For up to `most` bytes from each of `slots` ranks. Throws Error.
  ControlBuffer(Backend& backend, int slots, size_t most);
  ~ControlBuffer();
  ControlBuffer(const ControlBuffer&) = delete;
  ControlBuffer& operator=(const ControlBuffer&) = delete;

  // What this rank says next: the same number of bytes on all ranks, and no more than `most`.
  void post(std::span<const char> words);

  // What lies in the backend's memory, for NCCL to move on stream(): `slot_bytes()` of each rank.
  Stream stream() const { return stream_; }
  size_t slot_bytes() const { return bytes_; }
  const char* own() const { return memory_ + place(slots_); }
  char* slot(int slot) const { return memory_ + place(slot); }

  // Whether nothing of the last meeting still waits. Throws what the device has failed with.
  bool idle() const { return backend_.idle(stream_); }
  // The same, for who only wants to be rid of it: with the device's failure nothing waits either.
  bool has_ended() const noexcept;

  // After a meeting: reads what was said. The first slot to which nothing came; empty: there is
  // none.
  std::optional<int> read();

  // What the slot's rank had said by then.
  std::span<const char> received(int slot) const;

 private:
  size_t place(int slot) const { return bytes_ * static_cast<size_t>(slot); }

  Backend& backend_;
  const int slots_;
  size_t bytes_ = 0;        // of each rank this time: a mark, and its words
  std::vector<char> all_;   // by slot
  std::vector<char> said_;  // what is on its way to the backend's memory, or was
  Stream stream_ = nullptr;
  char* memory_ = nullptr;  // the backend's: by slot, and then this rank's own
};

}  // namespace terse
