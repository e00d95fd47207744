#include "plan/link.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/grid.h"
#include "plan/native_traffic.h"

namespace terse::plan {
namespace {

// First and last node of each size, from one on.
void add_ends_of_each_size(const Topology& t, int from, std::vector<int>* nodes) {
  struct Ends {
    int size, first, last;
  };
  std::vector<Ends> all;
  for (int i = 0; i < t.nodes(); ++i) {
    const int node = (from + i) % t.nodes();
    const auto known = std::ranges::find(all, t.size[node], &Ends::size);
    if (known == all.end())
      all.push_back({t.size[node], node, node});
    else
      known->last = node;
  }
  for (const Ends& e : all) nodes->insert(nodes->end(), {e.first, e.last});
}

// Nodes that differ from the root's in the lowest digit alone: in many levels a Reduce sends them
// the most. And those whose lowest digits are next to the root's, and the others its own: in a
// Broadcast they send the most.
void add_group(int root, const Topology& t, std::vector<int>* nodes) {
  const Grid grid = grid_of_groups(t);
  for (const size_t rank : grid.group(static_cast<size_t>(root), 1)) nodes->push_back(t.node[rank]);
  auto next = static_cast<size_t>(root);
  for (size_t level = 1; level < grid.levels(); ++level) {
    next = grid.peer(next, level, (grid.digit(next, level) + 1) % grid.radix(level));
    nodes->push_back(t.node[next]);
  }
}

// Nodes that may be the busiest, each once: all, if they differ and are few. Else of each size the
// first and the last one, of all and after the root, as those own the shards of a message with
// fewer shards than ranks, or none; the root's; and in many levels those of its group.
std::vector<int> candidates(Collective collective, int root, const Topology& t, bool in_groups) {
  constexpr size_t kFewRanks = 512;
  std::vector<int> nodes;
  if (!t.is_alike() && t.node.size() <= kFewRanks) {
    nodes.resize(t.nodes());
    std::iota(nodes.begin(), nodes.end(), 0);
    return nodes;
  }
  add_ends_of_each_size(t, 0, &nodes);
  if (traits(collective).rooted) {
    nodes.push_back(t.node[root]);
    add_ends_of_each_size(t, t.node[root] + 1, &nodes);
    if (in_groups) add_group(root, t, &nodes);
  }
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

// Bytes of the node that sends the most to others. `sent`: by a rank.
template <class Sent>
Traffic busiest(Collective collective, int root, const Topology& t, bool in_groups,
                const Sent& sent) {
  const int ranks = static_cast<int>(t.node.size());
  Traffic most;
  for (const int node : candidates(collective, root, t, in_groups)) {
    Traffic link;
    for (int rank = 0; rank < ranks; ++rank)
      if (t.node[rank] == node) link += sent(rank);
    if (most.bytes == 0 || link.off_node > most.off_node) most = link;
  }
  return most;
}

Traffic compressed_link(const Algorithm& algorithm, Shape shape) {
  return busiest(algorithm.collective, shape.root, shape.topology, algorithm.groups, [&](int rank) {
    shape.rank = rank;
    return algorithm.cost(shape).sent;
  });
}

}  // namespace

Link link_of(const Algorithm& algorithm, const Shape& shape) {
  const Topology& t = shape.topology;
  const Collective collective = algorithm.collective;
  if (t.nodes() < 2 || is_point_to_point(collective)) return {};
  return {native_link(collective, shape.count * shape.element_bytes, shape.root, t),
          compressed_link(algorithm, shape)};
}

void add_natives(const std::vector<Step>& steps, const Shape& s, Link* link) {
  if (s.topology.nodes() < 2) return;
  for (const Step& step : steps)
    for (const Native& n : step.natives)
      if (step.is_extra && n.recv.region != Region::kExact && !n.meets)
        link->compressed += native_link(
            n.collective, n.count * element_bytes(n.element, s.element_bytes), n.root, s.topology);
}

// A ring leaves a pod by one of its nodes.
Traffic native_link(Collective collective, size_t bytes, int root, const Topology& t) {
  const int ranks = static_cast<int>(t.node.size());
  const auto sent = [&](int rank) {
    return raw_traffic(collective, bytes, {ranks, rank, root}, t);
  };
  Traffic link = busiest(collective, root, t, false, sent);
  if (t.pods() == 0) return link;
  std::vector<size_t> off_pod(t.pod_size.size());
  for (int rank = 0; rank < ranks; ++rank) off_pod[t.pod_of(t.node[rank])] += sent(rank).off_pod;
  link.off_pod = std::ranges::max(off_pod) / t.pod_nodes;
  return link;
}

}  // namespace terse::plan
