// Ranks on nodes, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/algorithms.h"
#include "plan/topology.h"

namespace terse::plan {

// Returns true for algorithms of topologies that are grids, of a number of nodes with divisors.
inline bool needs_grid(const Algorithm& a) {
  return a.names.own == "hierarchical" || a.names.own == "multilevel";
}

inline Topology round_robin(int ranks, int nodes) {
  std::vector<uint64_t> hosts;
  for (int r = 0; r < ranks; ++r) hosts.push_back(static_cast<uint64_t>(r % nodes));
  return topology_of(hosts);
}

}  // namespace terse::plan
