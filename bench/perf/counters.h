// What was sent: by libterse's own count, and by the network interface's.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "bench.h"

namespace terse::perf {

struct WireBytes {
  double raw = 0;                              // what would have been sent uncompressed
  double wire = 0;                             // what was sent
  double raw_off_node = 0, wire_off_node = 0;  // of that, to other nodes
};

// Summed over some ranks, since their first call. Zero without a scheme.
WireBytes read_wire_bytes(const Scheme* scheme, std::span<const RankResources> ranks);

// Bytes sent through an interface of this process's network namespace. Throws std::runtime_error
// when there is none of that name.
std::uint64_t read_netdev_bytes(const std::string& name);

}  // namespace terse::perf
