#include "model/simulate_native.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "model/simulate.h"

namespace terse::model {
namespace {

using plan::Collective;
using plan::Topology;

// Messages of a simulation, at most.
constexpr size_t kMaxNativeMessages = size_t{1} << 22;

// Chunks of a tree, at most, and their least bytes: one goes up while another one goes down.
constexpr size_t kMaxChunks = 64, kMinChunk = size_t{64} << 10;

size_t rails_of(const Profile& p, const Topology& t) {
  return t.nodes() == 1 ? 1 : static_cast<size_t>(std::min(p.nics, std::ranges::min(t.size)));
}

// Links of one rail. Where each rank is the last one of its node in a rail, it sends within the
// node in all others.
Profile rail_of(Profile p, size_t rails, const Topology& t) {
  const bool takes_turns = rails > 1 && rails == static_cast<size_t>(std::ranges::max(t.size));
  if (p.within) p.within->bandwidth /= static_cast<double>(takes_turns ? rails - 1 : rails);
  for (std::optional<Link>* const link : {&p.between, &p.pods})
    if (*link) (*link)->bandwidth /= static_cast<double>(rails);
  p.nics = 1;
  return p;
}

size_t part(size_t bytes, size_t parts) { return (bytes + parts - 1) / parts; }

// Nodes, pod by pod.
std::vector<int> nodes_in_order(const Topology& t) {
  std::vector<int> nodes(t.size.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  if (t.pods() != 0) std::ranges::sort(nodes, {}, [&](int node) { return t.order[node]; });
  return nodes;
}

// Ranks of each node, by place.
std::vector<std::vector<uint32_t>> ranks_of_nodes(const Topology& t) {
  std::vector<std::vector<uint32_t>> ranks(t.size.size());
  for (uint32_t rank = 0; rank < t.node.size(); ++rank) ranks[t.node[rank]].push_back(rank);
  return ranks;
}

double seconds_of(const Profile& p, const Topology& t, const std::vector<RankWork>& ranks) {
  const Simulation simulation = simulate(p, t, ranks);
  if (!simulation.failure.empty()) throw std::logic_error(simulation.failure);
  return simulation.seconds;
}

// Ring in which each rank passes on what came in the round before.
std::vector<RankWork> ring(const Topology& t, size_t rounds, size_t bytes) {
  std::vector<uint32_t> order;
  const std::vector<std::vector<uint32_t>> ranks_of_node = ranks_of_nodes(t);
  for (const int node : nodes_in_order(t))
    order.insert(order.end(), ranks_of_node[node].begin(), ranks_of_node[node].end());
  std::vector<RankWork> ranks(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const uint32_t next = order[(i + 1) % order.size()],
                   before = order[(i + order.size() - 1) % order.size()];
    RankWork& own = ranks[order[i]];
    for (uint32_t round = 0; round < rounds; ++round) {
      const uint32_t send = 2 * round;
      own.push_back({.messages = {{next, true, bytes}}});
      if (round != 0) own.back().after = {send - 2, send - 1};
      own.push_back({.messages = {{before, false, bytes}}});
    }
  }
  return ranks;
}

// Same ring of fewer ranks, if there is one: all nodes do the same at the same time.
Topology folded(const Topology& t) {
  const bool folds = t.is_alike() && t.pods() == 0 && t.nodes() > 2;
  return folds ? plan::even_topology(2 * t.size.front(), 2) : t;
}

std::optional<double> ring_seconds(const Profile& p, const Topology& t, size_t rounds,
                                   size_t bytes) {
  const Topology ranks = folded(t);
  if (ranks.node.size() * rounds > kMaxNativeMessages) return {};
  return seconds_of(p, ranks, ring(ranks, rounds, bytes));
}

// Parent of a node in NCCL's binary tree of so many, in which odd ones are leaves; -1: the root.
int parent_of(int node, int nodes) {
  if (node == 0) return -1;
  const int bit = node & -node, up = (node ^ bit) | (bit << 1);
  return up < nodes ? up : node ^ bit;
}

// Ranks next to a rank in a tree; up is -1 for the root.
struct Neighbours {
  int up = -1;
  std::vector<uint32_t> down;
};

// By rank. `mirrored`: the other tree, by nodes from the last one on, whose leaves are others.
std::vector<Neighbours> tree_of(const Topology& t, bool mirrored) {
  std::vector<int> nodes = nodes_in_order(t);
  if (mirrored) std::ranges::reverse(nodes);
  if (mirrored && nodes.size() % 2 != 0) std::rotate(nodes.begin(), nodes.begin() + 1, nodes.end());
  const std::vector<std::vector<uint32_t>> ranks_of_node = ranks_of_nodes(t);
  std::vector<Neighbours> tree(t.node.size());
  const auto hang = [&](uint32_t rank, uint32_t up) {
    tree[rank].up = static_cast<int>(up);
    tree[up].down.push_back(rank);
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::vector<uint32_t>& chain = ranks_of_node[nodes[i]];
    for (size_t place = 1; place < chain.size(); ++place) hang(chain[place], chain[place - 1]);
    const int up = parent_of(static_cast<int>(i), static_cast<int>(nodes.size()));
    if (up >= 0) hang(chain.front(), ranks_of_node[nodes[up]].front());
  }
  return tree;
}

// Adds an AllReduce along a tree to a rank's work: chunk by chunk, sums go up and come down.
void add_tree(const Neighbours& next, size_t chunks, size_t bytes, RankWork& work) {
  const auto add = [&](WorkStep step) {
    work.push_back(std::move(step));
    return static_cast<uint32_t>(work.size() - 1);
  };
  std::vector<WorkMessage> from_below, to_below;
  for (const uint32_t rank : next.down) {
    from_below.push_back({rank, false, bytes});
    to_below.push_back({rank, true, bytes});
  }
  std::vector<uint32_t> raised, lowered;  // the steps before
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    uint32_t whole = add({.messages = from_below});
    if (next.up >= 0) {
      const auto up = static_cast<uint32_t>(next.up);
      raised.push_back(whole);
      raised = {add({.after = raised, .messages = {{up, true, bytes}}})};
      whole = add({.messages = {{up, false, bytes}}});
    }
    lowered.push_back(whole);
    lowered = {add({.after = lowered, .messages = to_below})};
  }
}

double tree_seconds(const Profile& p, const Topology& t, size_t bytes) {
  const size_t most = std::min(kMaxChunks, kMaxNativeMessages / (4 * t.node.size())),
               of_tree = part(bytes, 2),
               chunks = std::clamp<size_t>(of_tree / kMinChunk, 1, std::max<size_t>(1, most));
  std::vector<RankWork> ranks(t.node.size());
  for (const bool mirrored : {false, true}) {
    const std::vector<Neighbours> tree = tree_of(t, mirrored);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      add_tree(tree[rank], chunks, part(of_tree, chunks), ranks[rank]);
  }
  return seconds_of(p, t, ranks);
}

}  // namespace

std::optional<double> simulate_native(const Profile& profile, Collective collective,
                                      const plan::Shape& shape) {
  const Topology& t = shape.topology;
  const size_t ranks = t.node.size(), bytes = shape.count * shape.element_bytes;
  const bool sums = collective == Collective::kAllReduce;
  if (!sums && collective != Collective::kAllGather && collective != Collective::kReduceScatter)
    return {};
  const size_t rails = rails_of(profile, t);
  const Profile rail = rail_of(profile, rails, t);
  std::optional<double> seconds = ring_seconds(rail, t, (sums ? 2 : 1) * (ranks - 1),
                                               part(sums ? part(bytes, ranks) : bytes, rails));
  if (sums && t.nodes() > 1) {
    const double tree = tree_seconds(rail, t, part(bytes, rails));
    seconds = std::min(seconds.value_or(tree), tree);
  }
  if (seconds) *seconds += profile.launch;
  return seconds;
}

}  // namespace terse::model
