#include "plan/link.h"

#include <algorithm>
#include <vector>

#include "plan/native.h"

namespace terse::plan {
namespace {

// Those that may be the busiest: the largest; the first, whose ranks own the shards of a message
// that has fewer than ranks; and where there is a root its node, and one that is not. Each once.
std::vector<int> candidates(Collective collective, int root, const Topology& t) {
  const int largest = static_cast<int>(std::ranges::max_element(t.size) - t.size.begin());
  std::vector<int> nodes = {largest, t.node.front()};
  if (traits(collective).rooted)
    nodes.insert(nodes.end(), {t.node[root], (t.node[root] + 1) % t.nodes()});
  std::ranges::sort(nodes);
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

// Of the node that sends the most to others. `sent`: by a rank.
template <class Sent>
Traffic busiest(Collective collective, int root, const Topology& t, const Sent& sent) {
  const int ranks = static_cast<int>(t.node.size());
  Traffic most;
  for (const int node : candidates(collective, root, t)) {
    Traffic link;
    for (int rank = 0; rank < ranks; ++rank)
      if (t.node[rank] == node) link += sent(rank);
    if (most.bytes == 0 || link.off_node > most.off_node) most = link;
  }
  return most;
}

Traffic compressed_link(const Algorithm& algorithm, Shape shape) {
  return busiest(algorithm.collective, shape.root, shape.topology, [&](int rank) {
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
      if (step.beside && n.recv.region != Region::kExact && !n.meets)
        link->compressed += native_link(
            n.collective, n.count * element_bytes(n.element, s.element_bytes), n.root, s.topology);
}

Traffic native_link(Collective collective, size_t bytes, int root, const Topology& t) {
  const int ranks = static_cast<int>(t.node.size());
  return busiest(collective, root, t, [&](int rank) {
    return raw_traffic(collective, bytes, {ranks, rank, root}, t);
  });
}

}  // namespace terse::plan
