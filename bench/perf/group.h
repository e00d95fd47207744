// The processes of a run in groups (NCCL_TESTS_SPLIT), each of which has a communicator of its own.
#pragma once

#include <vector>

#include "rendezvous.h"

namespace terse::perf {

struct Group {
  std::vector<int> colors;     // by process of the run
  std::vector<int> processes;  // of this process's group
  int process = 0;             // this one among them

  int size() const { return static_cast<int>(processes.size()); }
};

// Collective.
Group gather_groups(Rendezvous* rendezvous, int color);

}  // namespace terse::perf
