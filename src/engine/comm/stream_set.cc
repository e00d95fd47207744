#include "engine/comm/stream_set.h"

#include <algorithm>
#include <exception>

#include "engine/comm/growth.h"

namespace terse {
namespace {

constexpr auto kFirstCommunicate = static_cast<size_t>(plan::Lane::kCommunicate);

}  // namespace

StreamSet::StreamSet(Backend& backend, Stream caller)
    : backend_(backend),
      own_lanes_(std::min(plan::kLanes, kFirstCommunicate + backend.communicate_queues())) {
  try {
    for (size_t i = 0; i < own_lanes_; ++i) lanes_[i] = backend.create_stream(caller);
    for (size_t i = own_lanes_; i < lanes_.size(); ++i) lanes_[i] = lanes_[own_lanes_ - 1];
    caller_ = backend.create_event();
    finished_ = backend.create_event();
  } catch (...) {
    destroy();
    throw;
  }
}

StreamSet::~StreamSet() { destroy(); }

void StreamSet::destroy() noexcept {
  for (size_t i = 0; i < own_lanes_; ++i)
    if (lanes_[i] != nullptr) backend_.destroy_stream(lanes_[i]);  // waits for what is queued
  for (Event event : step_events_) backend_.destroy_event(event);
  for (Event event : {caller_, finished_})
    if (event != nullptr) backend_.destroy_event(event);
  free_memories();
  backend_.release(replays_);
}

void StreamSet::free_memories() noexcept {
  for (void* memory : memories_) backend_.release(memory);
  memories_.assign(1, nullptr);
  scratch_bytes_ = 0;
}

void StreamSet::reserve(size_t bytes) {
  if (bytes <= scratch_bytes_) return;
  const Growth larger = grow(backend_, scratch_bytes_, bytes);
  if (recording_ == 0) {
    try {
      synchronize();  // earlier calls may use the old memory
    } catch (...) {
      backend_.release(larger.memory);
      throw;
    }
    free_memories();
  }
  memories_.push_back(larger.memory);
  scratch_bytes_ = larger.bytes;
}

void StreamSet::extend(size_t bytes) {
  if (memories_.size() > 1 && recording_ == 0 && idle()) {
    for (auto old = memories_.begin(); old != memories_.end() - 1; ++old) backend_.release(*old);
    memories_.erase(memories_.begin(), memories_.end() - 1);
  }
  if (bytes <= scratch_bytes_) return;
  const Growth larger = grow(backend_, scratch_bytes_, bytes);
  memories_.push_back(larger.memory);
  scratch_bytes_ = larger.bytes;
}

Event StreamSet::step_event(size_t index) {
  while (step_events_.size() <= index) step_events_.push_back(backend_.create_event());
  return step_events_[index];
}

bool StreamSet::idle() const {
  return std::ranges::all_of(lanes_, [this](Stream lane) { return backend_.idle(lane); });
}

void StreamSet::synchronize() {
  // Waits for all lanes even after a failure: none may touch the caller's buffers any more.
  std::exception_ptr first;
  for (const Stream lane : lanes_) {
    try {
      backend_.synchronize(lane);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

void StreamSet::record(Stream stream, uint64_t recording) {
  constexpr uint64_t kNone = 0;
  if (replays_ == nullptr) replays_ = static_cast<uint64_t*>(backend_.allocate(sizeof(uint64_t)));
  backend_.upload(lanes_[0], replays_, &kNone, sizeof kNone);
  backend_.synchronize(lanes_[0]);
  auto in_use = std::make_shared<std::atomic<bool>>(true);
  backend_.release_with_graph(stream, in_use);
  in_use_ = std::move(in_use);  // not before a graph exists that returns the set
  recording_ = recording;
  has_prior_work = false;
}

}  // namespace terse
