// Order in which the calls of a group are made, which must be alike on all ranks whatever else a
// rank has in its group.
#pragma once

#include <span>

#include "engine/run/work.h"

namespace terse {

// 1. Native calls, in NCCL's own group. Native messages are among them only where nothing is
//    compressed: the peer may have such a message beside a compressed one.
// 2. Calls that turn out not to be worth compressing, or cannot be, in a group of NCCL's for each
//    reason (jobs.cc); ranks find that alike.
// 3. Compressed calls and the messages beside them: collectives in order on each communicator, then
//    its messages, which are all under way at once and keep the order between two ranks (works_of).
struct GroupSchedule {
  Jobs native;
  Jobs compressed;  // and messages beside them; step 2 takes its calls out
  bool any_compressed;

  // Returns true if a call of the group goes in step 1.
  bool is_native(const Job& job) const {
    return job.is_native() && !(any_compressed && is_message(job));
  }
};

GroupSchedule schedule(std::span<Job> jobs, std::pmr::memory_resource* memory);

}  // namespace terse
