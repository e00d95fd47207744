// The tracks of one communicator: its own, and one for each graph that its calls are recorded in.
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/track.h"

namespace terse {

class Tracks {
 public:
  explicit Tracks(Backend& backend) : backend_(backend) {}

  // What a call on the caller's stream runs on: the communicator's own track, made at the first
  // call, or that of the graph that is being recorded on the stream.
  Track& of(Stream caller);

  // Of calls that are not recorded: whether all are done; and blocks until they are, and throws
  // what failed in them.
  bool idle() const { return own_ == nullptr || own_->idle(); }
  void synchronize();

  // Whether nothing that was enqueued is left, recorded or not.
  bool ended() const;

 private:
  Backend& backend_;
  std::unique_ptr<Track> own_;
  std::vector<std::unique_ptr<Track>> recorded_;
};

}  // namespace terse
