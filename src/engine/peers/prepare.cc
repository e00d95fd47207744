#include "engine/peers/prepare.h"

#include <algorithm>
#include <deque>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "engine/peers/vote.h"
#include "engine/run/work.h"

namespace terse {
namespace {

// Vote of a rank.
enum class Preparation : uint8_t { kDone, kFailed };

// Needs of one communicator's jobs on this rank beyond what its ranks have agreed that they have.
struct Need {
  Communicator* communicator;
  Stream stream;
  size_t scratch_bytes = 0, exact_bytes = 0;
  std::vector<std::pair<StateKind, plan::State>> states = {};
  std::vector<std::pair<CodebookKind, size_t>> codebooks = {};  // and their bytes
  std::string trouble = {};                                     // of this rank
};

// Min bytes asked for, so that small calls of a group find room beside each other.
size_t least_scratch(const Job& job) {
  return std::min(job.communicator->routing().plans().chunk_policy().chunk_bytes, size_t{1} << 20);
}

// Plan of the call that takes the most memory of its kind.
PlanPointer fullest_plan(const Job& job) {
  return plan_of_collective(job, {.learns = may_learn(job)});
}

// Scratch of a job, the same on every rank, so that all ask at once, even if a root needs more than
// others. A plan without scratch needs none, but a little if the call is verified.
size_t scratch_of(const Job& job, const plan::Plan& plan) {
  if (plan.max_scratch_bytes == 0 && job.communicator->settings.verify == 0) return 0;
  return std::max(plan.max_scratch_bytes, least_scratch(job));
}

// Bytes for a native result beside the compressed one; the same on every rank, even if one alone
// has it.
size_t exact_of(const Job& job, const plan::Plan& plan) {
  const Request& r = job.request;
  if (job.communicator->settings.verify == 0 || r.op >= ncclNumOps) return 0;
  return plan::traits(r.collective).rooted ? message_bytes(r, job.communicator->ranks)
                                           : plan.buffers.front().recv_bytes;
}

Amounts amounts_of(const Job& job, const plan::Plan& plan) {
  return {scratch_of(job, plan), exact_of(job, plan)};
}

bool lacks_state(const Job& job, const plan::State& state) {
  return !state.key.empty() && job.compressed().shadow == nullptr &&
         !job.communicator->memory().states().agreed(state_kind(job), state);
}

bool lacks_codebook(const Job& job, const plan::Plan& plan) {
  return plan.codebook_bytes != 0 &&
         job.communicator->memory().codebooks().find(codebook_kind(job)) == nullptr;
}

// Ignores messages, which only two ranks see.
bool lacks(const Job* job) {
  const Communicator& c = *job->communicator;
  if (is_message(*job) || c.recording(job->request.stream) != 0) return false;
  const PlanPointer plan = fullest_plan(*job);
  return !c.memory().reservations().cover(amounts_of(*job, *plan)) ||
         lacks_state(*job, plan->state) || lacks_codebook(*job, *plan);
}

void remember(const Job& job) {
  Communicator& c = *job.communicator;
  const PlanPointer plan = fullest_plan(job);
  c.memory().reservations().add(amounts_of(job, *plan));
  if (!plan->state.key.empty() && job.compressed().shadow == nullptr)
    c.memory().states().agree(state_kind(job), plan->state);
  if (plan->codebook_bytes != 0) c.memory().codebooks().agree(codebook_kind(job));
}

// Needs of the communicators that ask this time. All jobs of one that stays native for now do.
std::vector<Need> new_needs(const Jobs& jobs) {
  std::vector<Need> needs;
  std::vector<const Communicator*> skipping;
  for (const Job* job : jobs) {
    Communicator& c = *job->communicator;
    if (!lacks(job)) continue;
    auto need = std::ranges::find(needs, &c, &Need::communicator);
    if (need == needs.end()) {
      if (std::ranges::find(skipping, &c) != skipping.end()) continue;
      if (c.memory().reservations().skips()) {
        skipping.push_back(&c);
        continue;
      }
      need = needs.insert(need, {.communicator = &c, .stream = job->request.stream});
    }
    const PlanPointer plan = fullest_plan(*job);
    need->scratch_bytes = std::max(need->scratch_bytes, scratch_of(*job, *plan));
    need->exact_bytes = std::max(need->exact_bytes, exact_of(*job, *plan));
    if (lacks_state(*job, plan->state)) need->states.push_back({state_kind(*job), plan->state});
    if (lacks_codebook(*job, *plan))
      need->codebooks.push_back({codebook_kind(*job), plan->codebook_bytes});
  }
  return needs;
}

void try_to_meet(Need& need) {
  try {
    StreamSet& track = need.communicator->memory().stream_sets().of(need.stream);
    track.reserve(need.scratch_bytes);
    need.communicator->mismatch().reserve();
    if (need.exact_bytes != 0) need.communicator->memory().exact().reserve(need.exact_bytes, track);
    for (const auto& [kind, state] : need.states)
      need.communicator->memory().states().make(kind, state, track);
    for (const auto& [kind, bytes] : need.codebooks)
      need.communicator->memory().codebooks().make(kind, track);
  } catch (const std::exception& e) {
    need.trouble = e.what();
  }
}

size_t bytes_of(const Need& need) {
  size_t sum = need.scratch_bytes + need.exact_bytes;
  for (const auto& [kind, state] : need.states) sum += state.bytes;
  for (const auto& [kind, bytes] : need.codebooks) sum += bytes;
  return sum;
}

// Returns true if all ranks have what they need. `failed`: first rank that has not.
bool conclude(const Need& need, std::optional<int> failed) {
  Communicator& c = *need.communicator;
  if (!failed) {
    c.memory().reservations().granted();
    return true;
  }
  if (!c.memory().reservations().refused()) return false;  // logged before
  c.log(
      LogLevel::kWarn, "{} B of scratch memory are not to be had, NCCL does without: {}",
      bytes_of(need),
      need.trouble.empty() ? fmt::format("rank {} does not have its part", *failed) : need.trouble);
  return false;
}

}  // namespace

Jobs prepare(Jobs& jobs) {
  Jobs native(jobs.get_allocator());
  if (std::ranges::none_of(jobs, lacks)) return native;
  std::vector<Need> needs = new_needs(jobs);
  std::deque<Vote<Preparation>> votes;
  for (Need& need : needs) {
    try_to_meet(need);
    votes.emplace_back(*need.communicator,
                       need.trouble.empty() ? Preparation::kDone : Preparation::kFailed);
  }
  // The ranks have agreed before: one that does not come is late.
  run_votes(votes, Timeout::kLateRank);
  for (size_t i = 0; i < needs.size(); ++i) {
    const Need& need = needs[i];
    if (!conclude(need, votes[i].first([](Preparation p) { return p == Preparation::kFailed; })))
      continue;
    for (const Job* job : jobs)
      if (job->communicator == need.communicator && lacks(job)) remember(*job);
  }
  std::ranges::copy_if(jobs, std::back_inserter(native), lacks);
  std::erase_if(jobs, lacks);
  return native;
}

}  // namespace terse
