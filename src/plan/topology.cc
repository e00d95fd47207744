#include "plan/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace terse::plan {
namespace {

// Bytes that leave the rank's node, and its pod.
struct Leaving {
  size_t node = 0, pod = 0;
};
using OffNode = Leaving (*)(Collective collective, size_t bytes, const Position& at,
                            const Topology& t);

// Share of each rank in what the last rank of the node sends to the next node.
Leaving along_ring(Collective collective, size_t bytes, const Position& at, const Topology& t) {
  const int node = t.node[at.rank];
  const int last = t.ahead[node] + t.size[node] - 1;
  const int root = t.ahead[t.node[at.root]] + t.place[at.root];
  const size_t sum = raw_bytes(collective, bytes, {at.ranks, last, root});
  const size_t ranks = t.size[node], place = t.place[at.rank];
  const size_t own = sum / ranks + (place < sum % ranks ? 1 : 0);
  return {own, t.nodes_share_pod(node, (node + 1) % t.nodes()) ? 0 : own};
}

Leaving to_all(Collective, size_t bytes, const Position& at, const Topology& t) {
  const int node = t.node[at.rank];
  const size_t in_pod = t.pods() == 0 ? at.ranks : t.pod_size[t.pod_of(node)];
  return {bytes * (at.ranks - t.size[node]), bytes * (at.ranks - in_pod)};
}
Leaving to_root(Collective, size_t bytes, const Position& at, const Topology& t) {
  return {t.is_near(at.rank, at.root) ? 0 : bytes, t.shares_pod(at.rank, at.root) ? 0 : bytes};
}
Leaving from_root(Collective collective, size_t bytes, const Position& at, const Topology& t) {
  return at.rank == at.root ? to_all(collective, bytes, at, t) : Leaving{};
}
Leaving nothing(Collective, size_t, const Position&, const Topology&) { return {}; }

// Indexed by Collective.
constexpr OffNode kOffNode[] = {
#define NCCL_COLLECTIVE(suffix, form, send, recv, name, rule, raw, off_node) off_node,
#include <nccl_collectives.inc>
};

template <class HostOf>
Topology topology_by(int ranks, const HostOf& host_of) {
  std::vector<uint64_t> hosts(ranks);
  for (size_t rank = 0; rank < hosts.size(); ++rank) hosts[rank] = host_of(rank);
  return topology_of(hosts);
}

}  // namespace

bool Topology::is_alike() const {
  return std::ranges::all_of(size, [&](int ranks) { return ranks == size.front(); });
}

bool Topology::is_grid() const { return nodes() > 1 && size.front() > 1 && is_alike(); }

Topology topology_of(std::span<const uint64_t> hosts) {
  Topology t;
  std::unordered_map<uint64_t, int> nodes;  // by host
  for (const uint64_t host : hosts) {
    const auto [known, is_new] = nodes.try_emplace(host, t.nodes());
    const int node = known->second;
    if (is_new) t.size.push_back(0);
    t.node.push_back(node);
    t.place.push_back(t.size[node]++);
  }
  for (int before = 0; const int ranks : t.size) {
    t.ahead.push_back(before);
    before += ranks;
  }
  return t;
}

std::string put_into_pods(std::span<const uint64_t> pods, Topology* topology) {
  Topology& t = *topology;
  if (std::ranges::count(pods, uint64_t{0}) == std::ssize(pods)) return "";
  if (const auto none = std::ranges::find(pods, uint64_t{0}); none != pods.end())
    return fmt::format("rank {} names no pod", none - pods.begin());
  std::vector<uint64_t> names;                 // of pods, by their first nodes
  std::vector<std::vector<int>> members;       // nodes
  std::vector<int> pod_of(t.size.size(), -1);  // by node
  for (size_t rank = 0; rank < pods.size(); ++rank) {
    const auto known = std::ranges::find(names, pods[rank]);
    const auto pod = static_cast<int>(known - names.begin());
    int& own = pod_of[static_cast<size_t>(t.node[rank])];
    if (own >= 0 && own != pod)
      return fmt::format("rank {} names another pod than the ranks of its node", rank);
    if (own == pod) continue;
    if (known == names.end()) {
      names.push_back(pods[rank]);
      members.emplace_back();
    }
    own = pod;
    members[static_cast<size_t>(pod)].push_back(t.node[rank]);
  }
  if (names.size() == 1) return "all nodes are in one pod";
  const size_t nodes = members.front().size();
  for (const std::vector<int>& pod : members)
    if (pod.size() != nodes)
      return fmt::format("one pod has {} and another one {} nodes", nodes, pod.size());
  if (nodes == 1) return "each pod is one node";
  t.pod_nodes = static_cast<int>(nodes);
  t.order.resize(t.size.size());
  for (int place = 0; const std::vector<int>& pod : members) {
    t.pod_size.push_back(0);
    for (const int node : pod) {
      t.order[static_cast<size_t>(node)] = place++;
      t.pod_size.back() += t.size[static_cast<size_t>(node)];
    }
  }
  return "";
}

Topology even_topology(int ranks, int nodes, int pods) {
  Topology t = topology_by(ranks, [&](uint64_t rank) {
    return rank * static_cast<uint64_t>(nodes) / static_cast<uint64_t>(ranks);
  });
  std::vector<uint64_t> names;
  for (const int node : t.node)
    names.push_back(pods == 1 ? 0 : 1 + static_cast<uint64_t>(node) * pods / nodes);
  put_into_pods(names, &t);
  return t;
}

Topology full_topology(int ranks, int node_ranks) {
  return topology_by(ranks,
                     [&](uint64_t rank) { return rank / static_cast<uint64_t>(node_ranks); });
}

// A missing root is NCCL's to refuse.
Traffic raw_traffic(Collective collective, size_t bytes, const Position& at, const Topology& t) {
  Traffic traffic{raw_bytes(collective, bytes, at)};
  if (t.nodes() > 1 && at.root >= 0 && at.root < at.ranks) {
    const Leaving leaving = kOffNode[static_cast<size_t>(collective)](collective, bytes, at, t);
    traffic.off_node = leaving.node;
    traffic.off_pod = leaving.pod;
  }
  return traffic;
}

Traffic traffic_to(int peer, size_t bytes, int rank, const Topology& t) {
  return {bytes, t.is_near(rank, peer) ? 0 : bytes, t.shares_pod(rank, peer) ? 0 : bytes};
}

Traffic traffic_to(std::span<const size_t> bytes_by_peer, int rank, const Topology& t) {
  Traffic traffic;
  for (size_t peer = 0; peer < bytes_by_peer.size(); ++peer)
    traffic += traffic_to(static_cast<int>(peer), bytes_by_peer[peer], rank, t);
  return traffic;
}

}  // namespace terse::plan
