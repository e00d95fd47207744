// Streams, events and scratch memory that calls on a communicator use, one after another.
//
// Calls recorded in a graph have a set of their own for each graph, which may run at any later
// time, beside other calls and graphs. When a graph can no longer run, its set serves the next one.
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
  // Makes a set for calls on streams like `caller`.
  StreamSet(Backend& backend, Stream caller);
  ~StreamSet();
  StreamSet(const StreamSet&) = delete;
  StreamSet& operator=(const StreamSet&) = delete;

  const std::array<Stream, plan::kLanes>& lanes() const { return lanes_; }

  // Makes scratch of at least `bytes`. Recorded calls keep what they had; waits for others.
  void reserve(size_t bytes);
  // reserve() that does not wait, for callers that may only enqueue: holds the memory that was
  // there until the lanes are empty.
  void extend(size_t bytes);
  char* scratch() const { return static_cast<char*>(memories_.back()); }
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Event of step `index` of the running plan; re-recorded from call to call.
  Event step_event(size_t index);
  // Events: where a caller's stream stands, and where the last call ends. Whoever records that has
  // waited for it before.
  Event caller_event() const { return caller_; }
  Event finished_event() const { return finished_; }
  // Set if a call went before, whose end is to be waited for.
  bool has_prior_work = false;

  // Returns true if all lanes are empty. Neither idle() nor synchronize() is called while
  // recording.
  bool idle() const;
  // Blocks until all lanes are empty; throws what failed in them.
  void synchronize();

  // Takes the recording under way on `stream`.
  void record(Stream stream, uint64_t recording);
  uint64_t recording() const { return recording_; }
  // Returns true if a graph may still run.
  bool in_use() const { return in_use_ != nullptr && in_use_->load(std::memory_order_acquire); }
  // Number of recorded calls that have run before, in the backend's memory; null if nothing is
  // recorded.
  uint64_t* replays() const { return replays_; }

 private:
  void destroy() noexcept;
  void free_memories() noexcept;

  Backend& backend_;
  const size_t own_lanes_;  // the last one serves for the others
  std::array<Stream, plan::kLanes> lanes_{};
  std::vector<Event> step_events_;
  Event caller_ = nullptr, finished_ = nullptr;
  std::vector<void*> memories_{nullptr};  // the last one is in use
  size_t scratch_bytes_ = 0;
  uint64_t recording_ = 0;
  std::shared_ptr<std::atomic<bool>> in_use_;
  uint64_t* replays_ = nullptr;
};

}  // namespace terse
