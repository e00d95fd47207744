// Ranks of nodes that are alike, as collectives in levels see them. Level 0 is a node: its
// ranks differ in their place. Above it nodes are in groups of radix(1), these in groups of
// radix(2), and so on: a node's number has a digit for each level, the lowest one first. Where
// there are pods, nodes are numbered pod by pod.
//
// A shard of a sum comes to its owner digit by digit: at level i a rank exchanges with those that
// differ from it in digit i alone, and keeps what belongs to the ranks that share its digits 0 to
// i.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/topology.h"

namespace terse::plan {

class Grid {
 public:
  // Two levels: all nodes are one group.
  explicit Grid(const Topology& topology);
  // `radices`: of the levels above the node; their product is the number of nodes.
  Grid(const Topology& topology, std::span<const size_t> radices);

  size_t levels() const { return radix_.size(); }
  size_t radix(size_t level) const { return radix_[level]; }
  size_t places() const { return radix_.front(); }
  size_t nodes() const { return by_node_.size() / places(); }

  size_t rank(size_t node, size_t place) const { return by_node_[node * places() + place]; }
  size_t digit(size_t rank, size_t level) const {
    return level == 0 ? place(rank) : node(rank) / below_[level] % radix_[level];
  }
  // Rank that differs from another one in this digit alone.
  size_t peer(size_t rank, size_t level, size_t digit) const {
    if (level == 0) return this->rank(node(rank), digit);
    const size_t lowest = node(rank) - this->digit(rank, level) * below_[level];
    return this->rank(lowest + digit * below_[level], place(rank));
  }

  // Positions of ranks: by place, then by digit 1, digit 2, and so on; in two levels at one place
  // in the order of ranks. Ranks that share the digits 0 to a level lie side by side, block(level)
  // of them, from first(rank, level) on.
  size_t position(size_t rank) const { return position_[rank]; }
  size_t rank_at(size_t position) const { return by_position_[position]; }
  size_t block(size_t level) const { return block_[level]; }
  size_t first(size_t rank, size_t level) const {
    return position(rank) / block(level) * block(level);
  }

  // Ranks that share the digits 0 to a level with one, by position.
  std::span<const size_t> row(size_t rank, size_t level) const {
    return std::span(by_position_).subspan(first(rank, level), block(level));
  }

  // Rank and those that differ from it in this digit alone, by position.
  std::vector<size_t> group(size_t rank, size_t level) const;

 private:
  size_t node(size_t rank) const {
    const auto node = static_cast<size_t>(node_[rank]);
    return order_.empty() ? node : static_cast<size_t>(order_[node]);
  }
  size_t place(size_t rank) const { return static_cast<size_t>(place_[rank]); }

  const std::span<const int> node_, place_, order_;  // the topology's; two levels have no order
  std::vector<size_t> radix_, block_;                // by level
  std::vector<size_t> below_;                        // by level: nodes of one of its groups
  std::vector<size_t> by_node_, position_, by_position_;
};

// Peers between nodes whose messages take as long as one more level does: its latencies and
// kernels, both ways. An estimate, by the profiles of machines with many nodes.
constexpr size_t kPeersPerLevel = 14;

// Radices of the levels above the node, of the least cost in peers and levels. With pods: those
// within a pod, then those between pods. Without: two or more, the largest first; a prime number of
// nodes is one radix.
std::vector<size_t> radices_of(const Topology& topology);
std::vector<size_t> radices_of(size_t nodes);

// Number of messages of a rank one way through these levels, with those to itself.
size_t messages_in_levels(const Topology& topology);

// Levels of a topology by these radices.
Grid grid_of_groups(const Topology& topology);

// Returns true if the radices are those of pods, or cost less than one level for all nodes.
bool are_worth_it(std::span<const size_t> radices, const Topology& topology);

}  // namespace terse::plan
