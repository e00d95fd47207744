// The streams of a group. "Using multiple streams within a group" NCCL has all of a communicator's
// calls begin when each of its streams has come to the group, and each go on when all of them are
// done (NCCL's user guide, Group Calls). Of its own calls NCCL sees to that by itself.
#pragma once

#include <vector>

#include "engine/comm/communicator.h"

namespace terse {

class Joint {
 public:
  void add(Communicator& communicator, Stream stream);
  bool empty() const { return parts_.empty(); }

  // Throws Error where some of a communicator's streams are recorded, and others not, or in another
  // graph: NCCL takes no such group.
  void require_one_recording() const;

  // Enqueues that each stream waits for what all others of its communicator have by now. Throws
  // Error.
  void meet() const;

 private:
  struct Part {
    Communicator* communicator;
    std::vector<Stream> streams;  // each once
  };
  std::vector<Part> parts_;
};

}  // namespace terse
