// What calls on a communicator run on, one after another: queues, events, scratch memory.
//
// Calls that a program records in a graph have a track of their own for each graph, for the graph
// may run at any later time, beside other calls and other graphs. When a graph can no longer run,
// its track serves the next one.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "plan/plan.h"

namespace terse {

class StreamSet {
 public:
  // For calls on streams like this one.
  StreamSet(Backend& backend, Stream caller);
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  const std::array<Stream, plan::kLanes>& lanes() const { return lanes_; }

  // Makes scratch of at least `bytes`. Recorded calls keep what they had; others are waited for.
  void reserve(size_t bytes);
  // The same without waiting, for who must only enqueue: what was there before is held until the
  // lanes are seen empty.
  void extend(size_t bytes);
  char* scratch() const { return static_cast<char*>(memories_.back()); }
  size_t scratch_bytes() const { return scratch_bytes_; }

  // The event of step `index` of whichever plan runs; re-recorded from call to call.
  Event step_event(size_t index);
  // Marks where a caller's stream stands, and where the last call ends.
  Event caller_event() const { return caller_; }
  Event finished_event() const { return finished_; }
  // Whether a call has gone before, whose end is to be waited for.
  bool has_prior_work = false;

  // Whether all lanes are empty. Not while recording, and nor is the next.
  bool idle() const;
  // Blocks until all lanes are empty; throws what failed in them.
  void synchronize();

  // Takes the recording that goes on on `stream`.
  void record(Stream stream, uint64_t recording);
  uint64_t recording() const { return recording_; }
  // Whether a graph may still run.
  bool in_use() const { return in_use_ != nullptr && in_use_->load(std::memory_order_acquire); }
  // How many recorded calls have run before, in the backend's memory; null when nothing is
  // recorded.
  uint64_t* replays() const { return replays_; }

 private:
  void destroy() noexcept;
  void free_memories() noexcept;

  Backend& backend_;
  const size_t own_lanes_;  // the others are the last one of these
  std::array<Stream, plan::kLanes> lanes_{};
  std::vector<Event> step_events_;
  Event caller_ = nullptr, finished_ = nullptr;
  std::vector<void*> memories_{nullptr};  // the last one counts
  size_t scratch_bytes_ = 0;
  uint64_t recording_ = 0;
  std::shared_ptr<std::atomic<bool>> in_use_;
  uint64_t* replays_ = nullptr;
};

}  // namespace terse
