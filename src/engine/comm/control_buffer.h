// Stream and memory of a host all-gather: a few words from each rank (peers/host_all_gather.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"

namespace terse {

class ControlBuffer {
 public:
  // Makes room for up to `most` bytes from each of `slots` ranks. Throws Error.
  ControlBuffer(Backend& backend, int slots, size_t most);
  ~ControlBuffer();
  ControlBuffer(const ControlBuffer&) = delete;
  ControlBuffer& operator=(const ControlBuffer&) = delete;

  // Sets this rank's next words: as many bytes on all ranks, at most `most`.
  void post(std::span<const char> words);

  size_t max_bytes() const { return most_; }  // of words

  // Memory of the backend that NCCL moves on stream(): slot_bytes() of each rank.
  Stream stream() const { return stream_; }
  size_t slot_bytes() const { return bytes_; }
  const char* own() const { return memory_ + place(slots_); }
  char* slot(int slot) const { return memory_ + place(slot); }

  // Returns true if nothing of the last all-gather still waits. Throws the device's failure.
  bool idle() const { return backend_.idle(stream_); }
  // idle(), but true if the device has failed: then nothing waits either.
  bool has_ended() const noexcept;

  // Reads what was received. Returns the first slot to which nothing came; empty: there is none.
  std::optional<int> read();

  // Words of the slot's rank.
  std::span<const char> received(int slot) const;

 private:
  size_t place(int slot) const { return bytes_ * static_cast<size_t>(slot); }

  Backend& backend_;
  const int slots_;
  const size_t most_;
  size_t bytes_ = 0;        // of each rank this time: a mark, and its words
  std::vector<char> all_;   // by slot
  std::vector<char> said_;  // this rank's words, on their way to the backend's memory
  Stream stream_ = nullptr;
  char* memory_ = nullptr;  // in the backend: by slot, and then this rank's own
};

}  // namespace terse
