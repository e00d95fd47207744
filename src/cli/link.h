// What a call's plan costs a link: an estimate from bytes alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plan/plan.h"
#include "plan/topology.h"

namespace terse::cli {

// The bytes that a link carries one way.
struct Load {
  std::string link;  // whose it is
  uint64_t native = 0, compressed = 0;
};

// Ranks are spread over nodes evenly, neighbours together.
plan::Topology even_topology(int ranks, int nodes);

// Of the link that the ranks of the first node share, to the other nodes; no other node has more
// ranks. `raw` are the bytes that the call counts.
Load load_of_node(plan::Collective collective, size_t raw, int root, const plan::Topology& topology,
                  const std::function<plan::Plan(int rank)>& plan_of);

// Bytes a second from a rate as tc writes it, such as 10gbit or 2.5gbit. Throws
// Error(ncclInvalidArgument).
double parse_rate(const std::string& text);

void print_times(const Load& load, const std::string& rate);

}  // namespace terse::cli
