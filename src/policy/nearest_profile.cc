#include "policy/nearest_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "codec/float_mode.h"
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

// Returns true if the text has the part, and no longer number at its end ("A100" in "A1000").
bool names(std::string_view text, std::string_view part) {
  const size_t at = text.find(part), behind = at + part.size();
  return at != text.npos && (behind == text.size() || text[behind] < '0' || text[behind] > '9');
}

// Length of the longest part of a device's name that the profile has; 0: none. Cards for PCIe are
// called so, where a model has others ("NVIDIA A100-PCIE-40GB", "NVIDIA H100 NVL").
size_t likeness(const model::Profile& profile, std::string_view device) {
  const auto is_alike_in = [&](const std::string& part, std::string_view card) {
    return !has(device, card) || has(part, card);
  };
  size_t longest = 0;
  for (const std::string& part : profile.devices)
    if (names(device, part) && is_alike_in(part, "PCI") && is_alike_in(part, " NVL"))
      longest = std::max(longest, part.size());
  return longest;
}

// Steps of some 30 % between two networks; 0: alike, as some profiles have what is measured, others
// what is nominal.
double steps_between(double a, double b) { return std::round(4 * std::abs(std::log(a / b))); }

// Distance of a profile, least first.
auto distance(const model::Profile& p, const Machine& machine, const plan::Topology& t) {
  const double between = p.between ? p.between->bandwidth : 0;
  double ratio = 0;
  if (t.nodes() > 1)
    ratio = machine.bandwidth == 0 ? -between : steps_between(between, machine.bandwidth);
  const int node_ranks = static_cast<int>(t.node.size()) / t.nodes();
  return std::tuple(-static_cast<double>(likeness(p, machine.device)), p.max_nodes == 0 ? 1 : 0,
                    ratio, std::abs(p.node_ranks - node_ranks));
}

// Profile with the machine's own network; a rack's nodes are on NVLink.
model::Profile on_network(model::Profile p, double bandwidth) {
  if (!p.between || p.max_nodes != 0 || bandwidth == 0 ||
      steps_between(p.between->bandwidth, bandwidth) == 0)
    return p;
  p.name += fmt::format(" at {:.0f} Gbit/s", 8e-9 * bandwidth);
  p.between->bandwidth = bandwidth;
  return p;
}

}  // namespace

std::optional<model::Profile> nearest_profile(const Machine& machine,
                                              const plan::Topology& topology) {
  if (machine.device.empty() || topology.nodes() == 0) return {};
  const codec::DefaultFloatEnvironment environment;  // alike on all ranks
  const model::Profile* nearest = nullptr;
  for (const model::Profile& p : profiles()) {
    if (likeness(p, machine.device) == 0 || model::lacks(p, topology) != nullptr) continue;
    if (p.max_nodes != 0 && topology.nodes() > p.max_nodes) continue;
    if (nearest == nullptr ||
        distance(p, machine, topology) < distance(*nearest, machine, topology))
      nearest = &p;
  }
  if (nearest == nullptr) return {};
  return topology.nodes() > 1 ? on_network(*nearest, machine.bandwidth) : *nearest;
}

}  // namespace terse
