#include "engine/call/group_schedule.h"

#include <algorithm>

namespace terse {

GroupSchedule schedule(std::span<Job> jobs, std::pmr::memory_resource* memory) {
  GroupSchedule s{Jobs(memory), Jobs(memory), !std::ranges::all_of(jobs, &Job::is_native)};
  s.compressed.reserve(jobs.size());
  for (Job& job : jobs) (s.is_native(job) ? s.native : s.compressed).push_back(&job);
  return s;
}

}  // namespace terse
