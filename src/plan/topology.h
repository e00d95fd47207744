// Which ranks of a communicator share a node, and what of a call's bytes leaves a node.
//
// What an uncompressed call sends to other nodes is a model of NCCL's algorithms for large
// messages, as raw_bytes() is. Its rings and chains take the ranks node by node: whatever a node's
// ranks pass on to each other, only what the last of them sends leaves the node. For an AllReduce
// of S bytes over n ranks that is 2 (n-1)/n S a node, however many ranks the node has. NCCL has
// several rings, which leave a node by different ranks; so each rank of the node is said to send
// its share of it. In AllToAll, Gather, Scatter and Send a shard goes straight to its rank, and
// leaves where that is on another node.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/collective.h"

namespace terse::plan {

struct Topology {
  // By rank: its node, numbered in the order of their first ranks; its place there, in the order of
  // the ranks.
  std::vector<int> node, place;
  std::vector<int> size;   // by node: the number of its ranks
  std::vector<int> ahead;  // by node: the ranks on the nodes before it

  bool is_alike() const;  // nodes of equally many ranks
  bool is_grid() const;   // and more than one of each

  int nodes() const { return static_cast<int>(size.size()); }  // 0: not known

  // Whether two ranks share a node; so they do where nodes are not known.
  bool is_near(int rank, int peer) const { return nodes() < 2 || node[rank] == node[peer]; }
};

// Of ranks on these hosts.
Topology topology_of(std::span<const uint64_t> hosts);

// Ranks are spread over nodes evenly, neighbours together.
Topology even_topology(int ranks, int nodes);

// So many on each node, the rest on the last one.
Topology full_topology(int ranks, int node_ranks);

// Bytes that a rank sends, and those of them that leave its node; 0 where nodes are not known.
struct Traffic {
  size_t bytes = 0, off_node = 0;

  Traffic& operator+=(const Traffic& other) {
    bytes += other.bytes;
    off_node += other.off_node;
    return *this;
  }
  friend Traffic operator+(Traffic a, const Traffic& b) { return a += b; }
  bool operator==(const Traffic&) const = default;
};

// Uncompressed, as raw_bytes() has it.
Traffic raw_traffic(Collective collective, size_t bytes, const Position& at,
                    const Topology& topology);

// Of what goes to each peer.
Traffic traffic_to(std::span<const size_t> bytes_by_peer, int rank, const Topology& topology);

}  // namespace terse::plan
