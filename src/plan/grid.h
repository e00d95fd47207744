// The ranks of nodes of equally many (Topology::is_grid()), by node and place.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/topology.h"

namespace terse::plan {

class Grid {
 public:
  explicit Grid(const Topology& t) : nodes(t.size.size()), places(t.size.front()) {
    ranks_.resize(t.node.size());
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[t.node[r] * places + t.place[r]] = r;
  }

  size_t rank(size_t node, size_t place) const { return ranks_[node * places + place]; }

  const size_t nodes, places;

 private:
  std::vector<size_t> ranks_;
};

}  // namespace terse::plan
