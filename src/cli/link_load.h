// What a call's plan costs a link: an estimate from bytes alone.
#pragma once

#include <cstdint>
#include <string>

#include "plan/link.h"

namespace terse::cli {

// The bytes that a link carries one way.
struct Load {
  std::string link;  // whose it is
  uint64_t native = 0, compressed = 0;
};

// Of the link that the ranks of a node share, to the other nodes: the busiest one.
Load load_of_node(const plan::Algorithm& algorithm, const plan::Shape& shape);

// Bytes a second from a rate as tc writes it, such as 10gbit or 2.5gbit. Throws
// Error(ncclInvalidArgument).
double parse_rate(const std::string& text);

void print_times(const Load& load, const std::string& rate);

}  // namespace terse::cli
