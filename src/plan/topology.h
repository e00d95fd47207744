// Nodes and pods of a communicator's ranks, and the bytes of a call that leave them.
//
// Bytes of an uncompressed call follow a model of NCCL's algorithms for large messages, as
// raw_bytes(). Its rings and chains take the ranks node by node: only what the last rank of a node
// sends leaves it. For an AllReduce of S bytes over n ranks that is 2 (n-1)/n S a node, however
// many ranks the node has. NCCL has several rings, which leave a node by different ranks: each rank
// of the node counts for its share. In AllToAll, Gather, Scatter and Send a shard goes straight to
// its rank, and leaves if that is on another node. A pod is left where the next node, or the rank,
// is in another one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/collective.h"

namespace terse::plan {

struct Topology {
  // Node of each rank, numbered by first ranks; and its place there, by rank.
  std::vector<int> node, place;
  std::vector<int> size;   // by node: the number of its ranks
  std::vector<int> ahead;  // by node: number of ranks on the nodes before it
  // Nodes of a pod, of which there are several, with equally many nodes each; 0: there are none.
  int pod_nodes = 0;
  std::vector<int> order;     // by node: its place among all, pod by pod; empty without pods
  std::vector<int> pod_size;  // by pod: the number of its ranks

  bool is_alike() const;  // nodes of equally many ranks
  bool is_grid() const;   // is_alike(), with more than one node and place

  int nodes() const { return static_cast<int>(size.size()); }     // 0: unknown
  int pods() const { return static_cast<int>(pod_size.size()); }  // 0: there are none

  // Returns true if two ranks share a node, or if nodes are unknown.
  bool is_near(int rank, int peer) const { return nodes() < 2 || node[rank] == node[peer]; }
  // Returns true if two nodes, or two ranks, share a pod, or if there are none.
  bool shares_pod(int rank, int peer) const {
    return pods() == 0 || nodes_share_pod(node[rank], node[peer]);
  }
  bool nodes_share_pod(int a, int b) const { return pods() == 0 || pod_of(a) == pod_of(b); }
  // Pod of a node, where there are pods.
  int pod_of(int node) const { return order[node] / pod_nodes; }
};

// Topology of ranks on these hosts.
Topology topology_of(std::span<const uint64_t> hosts);

// Puts the nodes into pods by what their ranks name; 0: none. Returns why there are none then: "",
// as no rank names one; or "rank 3 names no pod".
std::string put_into_pods(std::span<const uint64_t> pods, Topology* topology);

// Topology of ranks spread evenly over nodes, and these over so many pods, neighbours together.
Topology even_topology(int ranks, int nodes, int pods = 1);

// Topology with so many ranks on each node, the rest on the last one.
Topology full_topology(int ranks, int node_ranks);

// Bytes that a rank sends, and those of them that leave its node, and its pod; 0 if nodes are
// unknown, or there are no pods.
struct Traffic {
  size_t bytes = 0, off_node = 0, off_pod = 0;

  Traffic& operator+=(const Traffic& other) {
    bytes += other.bytes;
    off_node += other.off_node;
    off_pod += other.off_pod;
    return *this;
  }
  friend Traffic operator+(Traffic a, const Traffic& b) { return a += b; }
  bool operator==(const Traffic&) const = default;
};

// Bytes of an uncompressed call, as raw_bytes().
Traffic raw_traffic(Collective collective, size_t bytes, const Position& at,
                    const Topology& topology);

// Bytes to one peer, and the sum of what goes to each.
Traffic traffic_to(int peer, size_t bytes, int rank, const Topology& topology);
Traffic traffic_to(std::span<const size_t> bytes_by_peer, int rank, const Topology& topology);

}  // namespace terse::plan
