// Runs the sweep: warm-up, timing and verification of each data type, operation and size.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collective.h"
#include "device.h"
#include "group.h"
#include "input.h"
#include "options.h"
#include "result.h"
#include "site.h"
#include "team.h"
#include "terse_api.h"

namespace terse::perf {

// What one rank owns for the whole run.
struct RankResources {
  int rank = 0;
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  char* send = nullptr;
  char* receive = nullptr;
  void* handles[2] = {nullptr, nullptr};  // -R
};

// Shared by the threads of a process; `ranks` holds thread 0's first, then thread 1's, and so on.
struct Run {
  const Options& options;
  const Collective& collective;
  const Device& device;
  const Scheme* scheme;  // null: plain NCCL
  const InputFiles& files;
  Team& team;
  Layout layout;
  const Group& group;
  bool counts_network;  // of the processes that see the same interfaces, one does
  std::size_t buffer_bytes;
  std::vector<int> devices;  // of this process's ranks
  std::vector<RankResources> ranks;
  std::function<void(const std::string&)> progress;  // called as each step begins
  std::function<void(const std::string&)> print;     // pieces of the table; thread 0 calls it
  MemoryUse memory = {};                             // -M; thread 0's devices

  int nranks() const { return group.size() * options.ranks_per_process(); }
};

struct Outcome {
  std::vector<Row> rows;
  Summary summary;
};

// The totals of -b to -e, or the one size that --input gives, in bytes.
std::vector<std::size_t> sizes(const Run& run, const DataType& type);

// The share of one thread; every thread of every process calls it. The same outcome everywhere.
Outcome run_thread(const Run& run, int thread);

}  // namespace terse::perf
