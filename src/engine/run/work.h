// Work of one plan: a collective, or all messages (Send and Recv) that a communicator has in a
// group.
#pragma once

#include <string>
#include <vector>

#include "engine/run/job.h"

namespace terse {

using Work = Jobs;

// Works of the jobs, in order on each communicator; its messages are one work, which comes last.
std::pmr::vector<Work> works_of(const Jobs& jobs);

// Extras of a collective's plan.
struct Extra {
  bool verified = false;  // there is a native result to compare with
  bool learns = false;    // levels are learned first
};

// Plan from the communicator's cache.
PlanPointer plan_of(const Work& work, const Extra& extra);
PlanPointer plan_of_collective(const Job& job, const Extra& extra = {});

bool is_message(const Job& job);

// Bytes that each call of the work sends to its peers.
std::pmr::vector<Sent> sent(const Work& work, const plan::Plan& plan);

// Bytes that NCCL sends from this rank for the call.
plan::Traffic native_traffic(const Communicator& communicator, const Request& request);

// Texts for tools: the work's name, and what a step of it makes or sends, with the uncompressed
// bytes.
std::string title(const Work& work, const plan::Plan& plan);

// Name for errors: AllReduce, or 3 messages.
std::string name_of(const Work& work);
size_t step_bytes(const Work& work, const plan::Step& step);

// Type of the elements that a job compresses.
codec::Dtype dtype_of(const Job& job);

// Kinds of the plan's state, if it has one, and of its table of levels.
StateKind state_kind(const Job& job);
CodebookKind codebook_kind(const Job& job);
CallKind kind_of(const Job& job);

// First compressed call of the work; null: all are native messages.
const Job* first_compressed(const Work& work);

// may_learn() returns true if calls of the kind learn levels; learns() if the call of that number
// does.
bool may_learn(const Job& job);
bool learns_at(const Job& job, uint64_t call);

}  // namespace terse
