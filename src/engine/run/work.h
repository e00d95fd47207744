// What is carried out by one plan: a collective, or all messages (Send and Recv) that a
// communicator has in a group.
#pragma once

#include <string>
#include <vector>

#include "engine/run/job.h"

namespace terse {

using Work = Jobs;

// The jobs as works, in order on each communicator; its messages are one work, which comes last.
std::pmr::vector<Work> works_of(const Jobs& jobs);

// What a call does beside what it is for; of a collective alone.
struct Extra {
  bool verified = false;  // the native result is there to compare with
  bool learns = false;    // the levels of its codes are learned first
};

// From the communicator's cache.
PlanPointer plan_of(const Work& work, const Extra& extra);
PlanPointer plan_of_collective(const Job& job, const Extra& extra = {});

bool is_message(const Job& job);

// What each call of the work sends to its peers.
std::pmr::vector<Sent> sent(const Work& work, const plan::Plan& plan);

// For tools: the work's name, and what a step of it makes, uncompressed, or sends.
std::string title(const Work& work, const plan::Plan& plan);

// For errors: AllReduce, or 3 messages.
std::string name_of(const Work& work);
size_t step_bytes(const Work& work, const plan::Step& step);

// The type of what a job compresses.
codec::Dtype dtype_of(const Job& job);

// What kind of state its plan has, if any; and which table of levels.
StateKind state_kind(const Job& job);
CodebookKind codebook_kind(const Job& job);

// Whether some call of its kind learns levels; and whether the call of that number does.
bool may_learn(const Job& job);
bool learns_at(const Job& job, uint64_t call);

}  // namespace terse
