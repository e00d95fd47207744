// Runs the plans of all ranks of a communicator without codecs, threads or NCCL: packed elements
// are the elements themselves, or with a loss less than they were. Among the steps that may run
// next one is chosen at random, so that a missing dependency shows as a wrong result, sooner or
// later; so is whether a transfer reads what it sends early or late, and when a communicate step
// ends, of which several may be under way, or one at a time.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "plan/algorithms.h"
#include "plan/plan.h"

namespace terse::plan {

// Elements are 32-bit integers here; a packed body has some bytes more.
Packing test_packing(size_t quantum, size_t more = 4);
// For algorithms that send sections of bodies: with some bytes more for each block.
Packing block_packing(size_t quantum, size_t more = 4);

// Formats of the second quantization beside the first one's packing: none of its own, a longer one,
// or another rounding.
SumFormat some_sum_format(const Packing& packing, std::mt19937& random);

// What the algorithm is for: in many levels a packing of blocks. On a shared grid the last four
// bytes are a parameter, the largest element, which all have to agree on: it is what is added to
// each element in place of a code.
Packing packing_for(const Algorithm& algorithm, const Packing& packing);

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
  int32_t* codebook = nullptr;  // of which packed elements have no need here
};

// Levels are learned here as well: the largest of all elements as the widest range; then each
// counts 1 + widest % 256 in the bin of its last bits; and level i is bin i.
std::string simulate(const std::vector<Plan>& plans, const std::vector<std::vector<Memory>>& memory,
                     std::mt19937& random, int32_t loss = 0);

}  // namespace terse::plan
