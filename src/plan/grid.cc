#include "plan/grid.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace terse::plan {
namespace {

// Cost of levels above the node, in peers.
size_t cost_in_peers(std::span<const size_t> radices) {
  size_t sum = 0;
  for (const size_t radix : radices) sum += radix - 1 + kPeersPerLevel;
  return sum;
}

// Radices of the least cost, at least so many, the largest first; empty: there are none.
std::vector<size_t> best_radices(size_t nodes, size_t min_levels) {
  std::vector<size_t> best, radices;
  const auto divide = [&](const auto& self, size_t rest, size_t largest) -> void {
    if (rest == 1 && radices.size() >= min_levels &&
        (best.empty() || cost_in_peers(radices) < cost_in_peers(best)))
      best = radices;
    for (size_t radix = std::min(rest, largest); radix > 1; --radix) {
      if (rest % radix != 0) continue;
      radices.push_back(radix);
      self(self, rest / radix, radix);
      radices.pop_back();
    }
  };
  divide(divide, nodes, nodes);
  return best;
}

}  // namespace

Grid::Grid(const Topology& t) : Grid(t, std::array{t.size.size()}) {}

Grid::Grid(const Topology& t, std::span<const size_t> radices)
    : node_(t.node),
      place_(t.place),
      order_(radices.size() > 1 ? std::span<const int>(t.order) : std::span<const int>()),
      radix_{static_cast<size_t>(t.size.front())},
      below_{1, 1},
      by_node_(t.node.size()),
      position_(t.node.size()),
      by_position_(t.node.size()) {
  radix_.insert(radix_.end(), radices.begin(), radices.end());
  block_.assign(levels(), 1);
  for (size_t level = 2; level < levels(); ++level)
    below_.push_back(below_.back() * radix(level - 1));
  for (size_t level = levels() - 1; level > 0; --level)
    block_[level - 1] = block_[level] * radix(level);
  std::vector<size_t> found(places(), 0);
  for (size_t r = 0; r < t.node.size(); ++r) {
    by_node_[node(r) * places() + place(r)] = r;
    size_t behind = found[place(r)]++;
    if (levels() > 2) {
      behind = 0;
      for (size_t level = 1; level < levels(); ++level) behind += digit(r, level) * block(level);
    }
    position_[r] = place(r) * block(0) + behind;
    by_position_[position_[r]] = r;
  }
}

std::vector<size_t> Grid::group(size_t rank, size_t level) const {
  std::vector<size_t> ranks(radix(level));
  for (size_t d = 0; d < ranks.size(); ++d) ranks[d] = peer(rank, level, d);
  std::ranges::sort(ranks, {}, [this](size_t r) { return position(r); });
  return ranks;
}

std::vector<size_t> radices_of(size_t nodes) {
  const std::vector<size_t> best = best_radices(nodes, 2);
  return best.empty() ? std::vector{nodes} : best;
}

std::vector<size_t> radices_of(const Topology& t) {
  if (t.pod_nodes == 0) return radices_of(t.size.size());
  const auto in_pod = static_cast<size_t>(t.pod_nodes);
  std::vector<size_t> radices = best_radices(in_pod, 1);
  const std::vector<size_t> of_pods = best_radices(t.size.size() / in_pod, 1);
  radices.insert(radices.end(), of_pods.begin(), of_pods.end());
  return radices;
}

size_t messages_in_levels(const Topology& t) {
  const std::vector<size_t> radices = radices_of(t);
  return std::accumulate(radices.begin(), radices.end(), static_cast<size_t>(t.size.front()));
}

Grid grid_of_groups(const Topology& t) {
  const std::vector<size_t> radices = radices_of(t);
  return Grid(t, radices);
}

bool are_worth_it(std::span<const size_t> radices, const Topology& t) {
  return t.pod_nodes != 0 || cost_in_peers(radices) < cost_in_peers(std::array{t.size.size()});
}

}  // namespace terse::plan
