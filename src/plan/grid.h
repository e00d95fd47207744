// Ranks of a topology that is_grid(), by node and place.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/topology.h"

namespace terse::plan {

class Grid {
 public:
  explicit Grid(const Topology& t)
      : nodes(t.size.size()), places(t.size.front()), ranks_(t.node.size()), index_(t.node.size()) {
    std::vector<size_t> found(places, 0);
    by_node_.resize(ranks_.size());
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const size_t place = t.place[r];
      by_node_[t.node[r] * places + place] = r;
      index_[r] = found[place]++;
      ranks_[place * nodes + index_[r]] = r;
    }
  }

  size_t rank(size_t node, size_t place) const { return by_node_[node * places + place]; }

  // Ranks at a place, one of each node, in their order; and a rank's index among them.
  std::span<const size_t> at_place(size_t place) const {
    return std::span(ranks_).subspan(place * nodes, nodes);
  }
  size_t index(size_t rank) const { return index_[rank]; }

  const size_t nodes, places;

 private:
  std::vector<size_t> by_node_, ranks_, index_;
};

}  // namespace terse::plan
