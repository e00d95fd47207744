// Ranks on nodes, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/topology.h"

namespace terse::plan {

inline Topology round_robin(int ranks, int nodes) {
  std::vector<uint64_t> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(static_cast<uint64_t>(r % nodes));
  return topology_of(hosts);
}

}  // namespace terse::plan
