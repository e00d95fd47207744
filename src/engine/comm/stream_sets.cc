#include "engine/comm/stream_sets.h"

#include <algorithm>

namespace terse {

StreamSet& StreamSets::of(Stream caller) {
  const uint64_t recording = backend_.recording(caller);
  if (recording == 0) {
    if (own_ == nullptr) own_ = std::make_unique<StreamSet>(backend_, caller);
    return *own_;
  }
  StreamSet* idle = nullptr;
  for (const auto& track : recorded_) {
    if (track->recording() == recording) return *track;
    if (!track->in_use()) idle = track.get();
  }
  if (idle == nullptr)
    idle = recorded_.emplace_back(std::make_unique<StreamSet>(backend_, caller)).get();
  idle->record(caller, recording);
  return *idle;
}

void StreamSets::synchronize() {
  if (own_ != nullptr) own_->synchronize();
}

bool StreamSets::ended() const {
  const auto runs = [](const auto& track) { return track->in_use() || !track->idle(); };
  return idle() && std::ranges::none_of(recorded_, runs);
}

}  // namespace terse
