// Built-in profile of the machine at hand, where none was measured.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/profile.h"
#include "plan/topology.h"

namespace terse {

// Machine that a job's ranks are on, as far as they see it; alike on all ranks.
struct Machine {
  std::string device;    // name of the GPUs; "": hosts, or GPUs that differ
  double bandwidth = 0;  // bytes a second of a node's network; 0: unknown
};

// Returns the built-in profile nearest to the machine: among those whose GPUs' name is a part of
// the machine's, the longest such part first, the one whose network has the nearest ratio of
// bandwidths. A rack's profile (max_nodes) precedes others. If the network is unknown, the fastest:
// native calls are then predicted no slower than they are. If it is known and differs by more than
// some 15 % from the profile's, its bandwidth takes the place of that one. Empty: no profile
// describes such GPUs on the topology.
std::optional<model::Profile> nearest_profile(const Machine& machine,
                                              const plan::Topology& topology);

}  // namespace terse
