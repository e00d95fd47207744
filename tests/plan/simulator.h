// Runs the plans of all ranks of a communicator without codecs, threads or NCCL: packed elements
// are the elements themselves, or with a loss less than they were. Among the steps that may run
// next one is chosen at random, so that a missing dependency shows as a wrong result, sooner or
// later; so is whether a transfer reads what it sends early or late, and when a communicate step
// ends, of which several may be under way, or one at a time.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace terse::plan {

// Elements are 32-bit integers here; a packed body has some bytes more.
Packing test_packing(size_t quantum, size_t more = 4);

// Runs to the end. Returns what went wrong (a deadlock, messages that do not match, one that
// changes while it is sent), or "".
std::string simulate(const std::vector<Plan>& plans, const std::vector<const int32_t*>& send,
                     const std::vector<int32_t*>& recv, std::mt19937& random);

// The same for plans of several messages: by rank, and message.
struct Memory {
  const int32_t* send;
  int32_t* recv;
  int32_t* exact = nullptr;
  int32_t* state = nullptr;
};
std::string simulate(const std::vector<Plan>& plans, const std::vector<std::vector<Memory>>& memory,
                     std::mt19937& random, int32_t loss = 0);

}  // namespace terse::plan
