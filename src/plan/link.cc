#include "plan/link.h"

#include <algorithm>
#include <array>

namespace terse::plan {
namespace {

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
  const auto largest = std::ranges::max_element(t.size) - t.size.begin();
  std::array nodes = {0, static_cast<int>(largest), t.node[shape.root]};
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

}  // namespace terse::plan
