// Plays a program on one rank.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace terse::program {

// What the rank received in each call; empty for a call in which it received nothing.
using Results = std::vector<std::vector<char>>;

// Throws std::runtime_error with NCCL's message; the communicators are aborted then.
Results play(const Program& program, ncclUniqueId id, int rank, int ranks);

}  // namespace terse::program
