// Stream sets of one communicator: its own, and one for each graph that its calls are recorded in.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/stream_set.h"

namespace terse {

class StreamSets {
 public:
  explicit StreamSets(Backend& backend) : backend_(backend) {}

  // Stream set of a call on the caller's stream: the communicator's own, made at the first call, or
  // that of the graph being recorded on the stream.
  StreamSet& of(Stream caller);

  // State of calls that are not recorded: idle() returns true if all are done; synchronize() blocks
  // until they are, and throws what failed in them.
  bool idle() const { return own_ == nullptr || own_->idle(); }
  void synchronize();

  // Returns true if nothing that was enqueued is left, recorded or not.
  bool ended() const;

 private:
  Backend& backend_;
  std::unique_ptr<StreamSet> own_;
  std::vector<std::unique_ptr<StreamSet>> recorded_;
};

}  // namespace terse
