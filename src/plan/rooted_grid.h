// Grid as a root sees it: nodes and places are counted from its own, which are 0. And the shards of
// its message, one for each rank of the other nodes, in sequence for the ranks at a place.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "plan/grid.h"

namespace terse::plan {

class RootedGrid {
 public:
  RootedGrid(const Topology& t, int root)
      : nodes(t.size.size()),
        places(t.size.front()),
        per_row(nodes - 1),
        grid_(t),
        topology_(t),
        root_(root),
        shards_(per_row * places) {
    std::iota(shards_.begin(), shards_.end(), size_t{0});
  }

  size_t node(int rank) const {
    return (nodes + topology_.node[rank] - topology_.node[root_]) % nodes;
  }
  size_t place(int rank) const {
    return (places + topology_.place[rank] - topology_.place[root_]) % places;
  }
  int rank(size_t node, size_t place) const {
    return static_cast<int>(grid_.rank((node + topology_.node[root_]) % nodes,
                                       (place + topology_.place[root_]) % places));
  }

  // Numbers of all shards; of those of a place; and of a rank, which is not on the root's node.
  std::span<const size_t> shards() const { return shards_; }
  std::span<const size_t> row(size_t place) const {
    return shards().subspan(place * per_row, per_row);
  }
  size_t shard(size_t node, size_t place) const { return place * per_row + node - 1; }

  const size_t nodes, places, per_row;

 private:
  const Grid grid_;
  const Topology& topology_;
  const int root_;
  std::vector<size_t> shards_;
};

}  // namespace terse::plan
