#include "counters.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "nccl_check.h"

namespace terse::perf {

WireBytes read_wire_bytes(const Scheme* scheme, std::span<const RankResources> ranks) {
  WireBytes sum;
  if (scheme == nullptr) return sum;
  for (const RankResources& rank : ranks) {
    terseStats_t stats = {};
    stats.size = sizeof(stats);
    check_terse(scheme->api(), scheme->api().comm_get_stats(rank.comm, &stats));
    sum.raw += static_cast<double>(stats.raw_bytes + stats.native_bytes);
    sum.wire += static_cast<double>(stats.wire_bytes + stats.native_bytes);
    sum.raw_off_node += static_cast<double>(stats.raw_off_node_bytes + stats.native_off_node_bytes);
    sum.wire_off_node +=
        static_cast<double>(stats.wire_off_node_bytes + stats.native_off_node_bytes);
  }
  return sum;
}

std::uint64_t read_netdev_bytes(const std::string& name) {
  // Not /sys: that shows the namespace in which it was mounted.
  std::ifstream table("/proc/self/net/dev");
  for (std::string line; std::getline(table, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(' ');
    if (line.substr(start, colon - start) != name) continue;
    // Eight numbers received, then eight sent; bytes come first.
    std::istringstream numbers(line.substr(colon + 1));
    std::uint64_t value = 0;
    for (int i = 0; i < 9; ++i) numbers >> value;
    return value;
  }
  throw std::runtime_error("--netdev " + name + ": no such network interface");
}

}  // namespace terse::perf
