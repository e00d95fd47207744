#include "plan/link.h"

#include <algorithm>
#include <array>

namespace terse::plan {
namespace {

// Those that may be the busiest: the first, the largest, the root's.
std::array<int, 3> candidates(int root, const Topology& t) {
  const auto largest = std::ranges::max_element(t.size) - t.size.begin();
  return {0, static_cast<int>(largest), t.node[root]};
}

Link out_of(int node, const Algorithm& algorithm, Shape shape) {
  const Topology& t = shape.topology;
  const size_t bytes = shape.count * shape.element_bytes;
  shape.grain = exact_grain(std::max<size_t>(1, bytes * t.node.size()));  // in one chunk
  Link link;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    if (t.node[shape.rank] != node) continue;
    link.native += raw_traffic(algorithm.collective, bytes, shape.position(), t);
    const Plan plan = algorithm.build(shape);
    link.compressed += traffic_to(plan.wire_to, shape.rank, t);
    link.compressed += plan.native;
  }
  return link;
}

void keep_busier(Traffic& busiest, const Traffic& other) {
  if (busiest.bytes == 0 || other.off_node > busiest.off_node) busiest = other;
}

}  // namespace

Link link_of(const Algorithm& algorithm, const Shape& shape) {
  const Topology& t = shape.topology;
  if (t.nodes() < 2 || is_point_to_point(algorithm.collective)) return {};
  std::array nodes = candidates(shape.root, t);
  std::ranges::sort(nodes);
  Link busiest;
  for (auto node = nodes.begin(), end = std::unique(nodes.begin(), nodes.end()); node != end;
       ++node) {
    const Link link = out_of(*node, algorithm, shape);
    keep_busier(busiest.native, link.native);
    keep_busier(busiest.compressed, link.compressed);
  }
  return busiest;
}

Traffic native_link(Collective collective, size_t bytes, int root, const Topology& t) {
  const int ranks = static_cast<int>(t.node.size());
  Traffic busiest;
  for (const int node : candidates(root, t)) {
    Traffic link;
    for (int rank = 0; rank < ranks; ++rank)
      if (t.node[rank] == node) link += raw_traffic(collective, bytes, {ranks, rank, root}, t);
    keep_busier(busiest, link);
  }
  return busiest;
}

}  // namespace terse::plan
