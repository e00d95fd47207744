// Streams of a group ("Using multiple streams within a group", NCCL's user guide): all of a
// communicator's calls begin when each of its streams has come to the group, and each stream
// continues when all are done. NCCL sees to that for its own calls.
#pragma once

#include <vector>

#include "engine/comm/communicator.h"

namespace terse {

class StreamJoin {
 public:
  void add(Communicator& communicator, Stream stream);
  bool empty() const { return parts_.empty(); }

  // Throws Error if some of a communicator's streams are recorded and others are not, or in another
  // graph: NCCL takes no such group.
  void require_one_recording() const;

  // Enqueues on each stream a wait for all others of its communicator. Throws Error.
  void meet() const;

 private:
  struct Part {
    Communicator* communicator;
    std::vector<Stream> streams;  // without repetition
  };
  std::vector<Part> parts_;
};

}  // namespace terse
