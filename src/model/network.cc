#include "model/network.h"

#include <algorithm>

namespace terse::model {

Network::Network(const Profile& profile, const plan::Topology& topology)
    : profile_(profile), topology_(topology), nics_of_node_(static_cast<size_t>(profile.nics)) {
  if (profile.within) ranks_ = add(topology.node.size(), profile.within->bandwidth);
  if (profile.between)
    nics_ = add(topology.size.size() * nics_of_node_,
                profile.between->bandwidth / static_cast<double>(nics_of_node_));
  if (profile.pods)
    pods_ = add(topology.pod_size.size(), profile.pods->bandwidth * topology.pod_nodes);
}

size_t Network::add(size_t count, double bandwidth) {
  const size_t first = ports_.size();
  ports_.resize(first + 2 * count, {bandwidth});
  return first;
}

size_t Network::nic(int rank) const {
  const auto node = static_cast<size_t>(topology_.node[rank]),
             place = static_cast<size_t>(topology_.place[rank]);
  return nics_ + 2 * (node * nics_of_node_ + place % nics_of_node_);
}

Network::Way Network::way(int from, int to) const {
  const auto own = [&](int rank) { return ranks_ + 2 * static_cast<size_t>(rank); };
  if (topology_.is_near(from, to)) return {{own(from), own(to) + 1}, 2};
  if (topology_.shares_pod(from, to) || !profile_.pods) return {{nic(from), nic(to) + 1}, 2};
  const auto pod = [&](int rank) {
    return pods_ + 2 * static_cast<size_t>(topology_.pod_of(topology_.node[rank]));
  };
  return {{nic(from), pod(from), pod(to) + 1, nic(to) + 1}, 4};
}

double Network::latency(int from, int to) const {
  if (topology_.is_near(from, to)) return profile_.within->latency;
  return topology_.shares_pod(from, to) || !profile_.pods ? profile_.between->latency
                                                          : profile_.pods->latency;
}

double Network::send(int from, int to, size_t bytes, double now) {
  sent_ += plan::traffic_to(to, bytes, from, topology_);
  const Way taken = way(from, to);
  double passed = now;
  for (size_t i = 0; i < taken.count; ++i) {
    Port& port = ports_[taken.ports[i]];
    port.free = std::max(port.free, now) + static_cast<double>(bytes) / port.bandwidth;
    passed = std::max(passed, port.free);
  }
  return passed;
}

}  // namespace terse::model
