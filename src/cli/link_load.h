// Load of a link by a call's plan: an estimate from bytes alone.
#pragma once

#include <cstdint>
#include <string>

#include "plan/link.h"

namespace terse::cli {

// Bytes that a link carries one way.
struct Load {
  std::string link;  // name of its owner
  uint64_t native = 0, compressed = 0;
};

// Load of the busiest link that the ranks of a node share, to the other nodes.
Load load_of_node(const plan::Algorithm& algorithm, const plan::Shape& shape);

// Bytes a second from a rate as tc writes it, such as 10gbit or 2.5gbit. Throws
// Error(ncclInvalidArgument).
double parse_rate(const std::string& text);

void print_times(const Load& load, const std::string& rate);

}  // namespace terse::cli
