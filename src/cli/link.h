// What a call's plan costs a link: an estimate from bytes alone.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "plan/plan.h"

namespace terse::cli {

// Ranks are spread over nodes evenly, neighbours together. With one node the link is that of each
// rank; else it is the one that the ranks of a node share, to the other nodes.
struct Layout {
  int ranks, nodes;
  bool ring;  // NCCL's own algorithm sends what a rank sends only once from node to node
};

struct Traffic {
  std::string link;                     // whose it is
  uint64_t native = 0, compressed = 0;  // bytes that it carries one way
};

Traffic traffic_of(const Layout& layout, const std::function<plan::Plan(int rank)>& plan_of);

// Bytes a second from a rate as tc writes it, such as 10gbit or 2.5gbit. Throws
// Error(ncclInvalidArgument).
double parse_rate(const std::string& text);

void print_times(const Traffic& traffic, const std::string& rate);

}  // namespace terse::cli
