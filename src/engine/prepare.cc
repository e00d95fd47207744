#include "engine/prepare.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "engine/exchange.h"
#include "engine/work.h"

namespace terse {
namespace {

// What one communicator's jobs need beyond what its ranks have agreed that they have.
struct Need {
  Communicator* communicator;
  Stream stream;
  size_t scratch_bytes;
  std::string trouble = {};  // of this rank
};

size_t scratch_of(const Job& job) { return scratch_bytes(job, plan_of_collective(job)); }

// Only calls for which every rank needs the same, so that all of them come to ask at once: a root
// may need more than the others, and messages are the matter of two.
bool lacks(const Job* job) {
  const Communicator& c = *job->communicator;
  return !plan::traits(job->request.collective).rooted && scratch_of(*job) > c.prepared_scratch &&
         c.backend.recording(job->request.stream) == 0;
}

std::vector<Need> new_needs(const Jobs& jobs) {
  std::vector<Need> needs;
  for (const Job* job : jobs) {
    Communicator& c = *job->communicator;
    if (!lacks(job)) continue;
    const auto known = std::ranges::find(needs, &c, &Need::communicator);
    if (known != needs.end())
      known->scratch_bytes = std::max(known->scratch_bytes, scratch_of(*job));
    else if (c.skips > 0)
      --c.skips;
    else
      needs.push_back({&c, job->request.stream, scratch_of(*job)});
  }
  return needs;
}

void try_to_meet(Need& need) {
  try {
    need.communicator->track_for(need.stream).reserve(need.scratch_bytes);
  } catch (const Error& e) {
    need.trouble = e.message;
  }
}

// The first rank that could not, or -1.
int first_in_trouble(const Communicator& c) {
  for (int rank = 0; rank < c.ranks; ++rank)
    if (c.verdict->words(rank)[0] != 0) return rank;
  return -1;
}

void conclude(const Need& need) {
  constexpr unsigned kMostSkips = 1023;
  Communicator& c = *need.communicator;
  const int rank = first_in_trouble(c);
  if (rank < 0) {
    c.prepared_scratch = need.scratch_bytes;
    c.refusals = 0;
    return;
  }
  c.skips = std::min(kMostSkips, (1u << std::min(c.refusals, 10u)) - 1);
  if (c.refusals++ > 0) return;  // said before
  log(LogLevel::kWarn, "{}: {} B of scratch memory are not to be had, NCCL does without: {}",
      c.describe(), need.scratch_bytes,
      need.trouble.empty() ? fmt::format("rank {} does not have them", rank) : need.trouble);
}

}  // namespace

Jobs prepare(Jobs& jobs) {
  std::vector<Need> needs = new_needs(jobs);
  std::vector<Exchange*> verdicts;
  for (Need& need : needs) {
    try_to_meet(need);
    const char word = !need.trouble.empty();
    need.communicator->verdict->say({&word, 1});
    verdicts.push_back(need.communicator->verdict.get());
  }
  meet(verdicts);
  for (const Need& need : needs) conclude(need);
  Jobs native(jobs.get_allocator());
  std::ranges::copy_if(jobs, std::back_inserter(native), lacks);
  std::erase_if(jobs, lacks);
  return native;
}

}  // namespace terse
