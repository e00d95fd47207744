#include "cli/option_checks.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "policy/settings.h"

namespace terse::cli {

void require_valid_with(const std::vector<Variable>& variables) {
  require_valid(read_settings([&](const char* name) -> const char* {
    const auto set = std::ranges::find(variables, name, &Variable::name);
    return set != variables.end() ? set->value.c_str() : std::getenv(name);
  }));
}

plan::Topology topology_of(int ranks, int nodes, int pods) {
  if (nodes > ranks) refuse("{} cannot be on {}", counted(ranks, "rank"), counted(nodes, "node"));
  if (pods > 1 && (nodes % pods != 0 || nodes == pods))
    refuse("{} cannot be in {} of equally many, and more than one", counted(nodes, "node"),
           counted(pods, "pod"));
  return plan::even_topology(ranks, nodes, pods);
}

void require_few_on_a_node(const plan::Shape& s, double most) {
  const double parts = static_cast<double>(std::ranges::max(s.topology.size)) * s.ranks;
  if (s.topology.nodes() > 1 && parts > most)
    refuse("{} on {} are too many to plan here: ask for fewer ranks a node",
           counted(s.ranks, "rank"), counted(s.topology.nodes(), "node"));
}

// Checks in floating point, as the numbers may be whatever somebody has typed.
void require_feasible(plan::Collective collective, const plan::Shape& s, bool predicted) {
  constexpr double kMaxShards = 1 << 20, kMaxShardsOfAll = 1 << 23;
  const plan::Traits& t = plan::traits(collective);
  const double plans =
      predicted && t.recv.who == plan::Who::kRoot ? std::ranges::max(s.topology.size) : 1;
  const double ranks = s.ranks;
  const double bytes = static_cast<double>(s.count) * static_cast<double>(s.element_bytes) *
                       (t.send.per_rank || t.recv.per_rank ? ranks : 1);
  if (bytes > static_cast<double>(kMaxBytes))
    refuse("a message of {:.4g} bytes cannot be right", bytes);
  const auto chunk = static_cast<double>(
      s.chunk(static_cast<size_t>(bytes / static_cast<double>(s.element_bytes)), s.ranks));
  const double shards = ranks * std::max(1.0, bytes / chunk);
  require_few_on_a_node(s, 1 << 25);
  if (shards > kMaxShards || shards * plans > kMaxShardsOfAll)
    refuse("{:.4g} bytes on {} are too much to plan here: ask for less of either", bytes,
           counted(s.ranks, "rank"));
}

}  // namespace terse::cli
