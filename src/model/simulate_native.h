// Simulation of NCCL's own algorithms, on the network of model/simulate.h: its ring, and for
// AllReduce its two binary trees of nodes, with a chain of the ranks of each node.
//
// The ranks that share a node have as many rings as the node has links, all alike: one is
// simulated, with its part of the bytes and of all links. A ring of nodes that are alike, without
// pods, goes as that of two of them does, in as many rounds. What NCCL computes takes no time.
#pragma once

#include <optional>

#include "model/profile.h"
#include "plan/plan.h"

namespace terse::model {

// Seconds of a call by the faster of them. Empty: NCCL has no ring for the collective, or the one
// that it takes here is too long to be simulated.
std::optional<double> simulate_native(const Profile& profile, plan::Collective collective,
                                      const plan::Shape& shape);

}  // namespace terse::model
