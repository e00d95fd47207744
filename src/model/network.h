// Links between ranks, by class, as a profile has them: a rank has one within its node, a node one
// for all its ranks, or several, of which a rank has one (`nics`), and a pod one for all its nodes.
// Each goes both ways at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/profile.h"
#include "plan/topology.h"

namespace terse::model {

class Network {
 public:
  // Both outlive it.
  Network(const Profile& profile, const plan::Topology& topology);

  // Sends bytes from a rank to another one, from `now` on; calls come in the order of their times.
  // Returns when the slowest link on their way has passed them on, without the latency. A link
  // takes what comes in its order, and is busy as long as there is any.
  double send(int from, int to, size_t bytes, double now);

  double latency(int from, int to) const;

  // Bytes sent so far.
  const plan::Traffic& sent() const { return sent_; }

 private:
  // One way of a link.
  struct Port {
    double bandwidth, free = 0;  // when it has passed on all so far
  };

  // Ports that a message goes through: out of the rank, the node, the pod, and into these.
  struct Way {
    std::array<size_t, 4> ports;
    size_t count;
  };
  Way way(int from, int to) const;

  // Adds links of a class; returns the first one's port outwards, behind which is that inwards.
  size_t add(size_t count, double bandwidth);
  size_t nic(int rank) const;

  const Profile& profile_;
  const plan::Topology& topology_;
  const size_t nics_of_node_;
  std::vector<Port> ports_;
  size_t ranks_ = 0, nics_ = 0, pods_ = 0;  // the first ports of each class
  plan::Traffic sent_;
};

}  // namespace terse::model
