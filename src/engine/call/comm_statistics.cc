#include "engine/call/comm_statistics.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/comm/directory.h"

namespace terse {

void get_statistics(ncclComm_t comm, terseStats_t* stats) {
  if (stats == nullptr) fail(ncclInvalidArgument, "stats is null");
  const size_t size = stats->size;
  if (size < sizeof size) fail(ncclInvalidArgument, "stats->size is {}", size);
  const CommunicatorPointer c = find_communicator(comm);
  const terseStats_t current = c != nullptr ? c->current_stats() : terseStats_t{};
  std::memset(stats, 0, size);
  std::memcpy(stats, &current, std::min(size, sizeof current));
  stats->size = size;
}

}  // namespace terse
