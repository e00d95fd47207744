#include "policy/nearest_profile.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "model/predict.h"
#include "policy/profile_file.h"

namespace terse {
namespace {

const std::vector<model::Profile>& profiles() {
  static const std::vector<model::Profile> all = [] {
    std::vector<model::Profile> parsed;
    for (const KnownProfile& known : known_profiles())
      parsed.push_back(parse_profile(known.text, std::string(known.name)));
    return parsed;
  }();
  return all;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Length of the longest part of a device's name that the profile has; 0: none. Cards for PCIe are
// called so, where a model has others ("NVIDIA A100-PCIE-40GB").
size_t likeness(const model::Profile& profile, std::string_view device) {
  size_t longest = 0;
  for (const std::string& part : profile.devices)
    if (has(device, part) && (!has(device, "PCI") || has(part, "PCI")))
      longest = std::max(longest, part.size());
  return longest;
}

// Distance of a profile, least first.
auto distance(const model::Profile& p, const Machine& machine, const plan::Topology& t) {
  const double between = p.between ? p.between->bandwidth : 0;
  double ratio =
      0;  // in steps of some 30 %: some profiles have what is measured, others what is nominal
  if (t.nodes() > 1)
    ratio = machine.bandwidth == 0
                ? -between
                : std::round(4 * std::abs(std::log(between / machine.bandwidth)));
  const int node_ranks = static_cast<int>(t.node.size()) / t.nodes();
  return std::tuple(-static_cast<double>(likeness(p, machine.device)), p.max_nodes == 0 ? 1 : 0,
                    ratio, std::abs(p.node_ranks - node_ranks));
}

}  // namespace

const model::Profile* nearest_profile(const Machine& machine, const plan::Topology& topology) {
  if (machine.device.empty() || topology.nodes() == 0) return nullptr;
  const model::Profile* nearest = nullptr;
  for (const model::Profile& p : profiles()) {
    if (likeness(p, machine.device) == 0 || model::lacks(p, topology) != nullptr) continue;
    if (p.max_nodes != 0 && topology.nodes() > p.max_nodes) continue;
    if (nearest == nullptr ||
        distance(p, machine, topology) < distance(*nearest, machine, topology))
      nearest = &p;
  }
  return nearest;
}

}  // namespace terse
