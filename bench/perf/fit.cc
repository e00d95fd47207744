#include "fit.h"

#include <algorithm>
#include <bit>

#include "engine/comm/chooser.h"
#include "plan/link.h"
#include "policy/profile.h"

namespace terse::perf {
namespace {

using model::Curve;
using model::Profile;

// Seconds a byte, between a curve's last two points.
double slope(const Curve& c) {
  const Curve::Point &a = *(c.points.end() - 2), &b = c.points.back();
  return std::max(1e-15, (b.seconds - a.seconds) / static_cast<double>(b.bytes - a.bytes));
}

bool is_to_go_by(const Curve& c) {
  return c.collective == plan::Collective::kAllReduce && c.dtype == codec::Dtype::kFloat32 &&
         c.points.size() >= 2;
}

// Of native calls, on several nodes or within one.
const Curve* native_calls(const Profile& p, bool apart) {
  const auto found = std::ranges::find_if(p.measured, [&](const Curve& c) {
    return is_to_go_by(c) && c.scheme == model::kNative && (c.nodes > 1) == apart;
  });
  return found == p.measured.end() ? nullptr : &*found;
}

int steps_of_tree(int leaves) { return 2 * std::bit_width(static_cast<unsigned>(leaves) - 1); }

void fit_link(const Curve& native, Profile* p) {
  const plan::Topology t = plan::even_topology(native.ranks, native.nodes);
  const size_t bytes = native.points.back().bytes;
  const plan::Traffic node = plan::native_link(plan::Collective::kAllReduce, bytes, 0, t);
  const bool apart = t.nodes() > 1;
  const double sent = static_cast<double>(apart ? node.off_node : node.bytes / t.node.size());
  const double fixed = native.points.front().seconds -
                       slope(native) * static_cast<double>(native.points.front().bytes);
  const double within =
      apart && p->within ? steps_of_tree(std::ranges::max(t.size)) * p->within->latency : 0;
  const double latency = std::max(fixed - within, native.points.front().seconds / 10) /
                         steps_of_tree(apart ? t.nodes() : native.ranks);
  const double bandwidth = sent / (slope(native) * static_cast<double>(bytes));
  const model::Link link{std::min(latency, kMostLatency),
                         std::clamp(bandwidth, kLeastRate, kMostRate)};
  (apart ? p->between : p->within) = link;
  // Of a node with several ranks, where nothing was measured within one, no more is known than that
  // its links were not the slower ones.
  if (apart && t.nodes() < native.ranks && !p->within) p->within = link;
}

// What a call takes beyond what its bytes take, all of it as coding. Nothing where the calls were
// NCCL's own, for it sends less between nodes.
std::optional<model::Rates> fit_codec(const Curve& c, const Profile& p) {
  const plan::Topology t = plan::even_topology(c.ranks, c.nodes);
  const terse::Scheme scheme = parse_scheme(c.scheme);
  const auto fitted = on_ranks(scheme, c.ranks);
  if (!fitted) return {};
  const size_t bytes = c.points.back().bytes;
  const Machines machines{plan::exact_grain(bytes), t};
  if (nccl_sends_less(*fitted, {c.collective, bytes / 4, c.dtype, c.ranks}, machines)) return {};
  const plan::Shape shape = shape_of({fitted->spec}, bytes / 4, 4, {c.ranks, 0, 0}, machines);
  Profile free = p;  // of codecs
  free.codecs.clear();
  free.coding = {kMostRate, kMostRate};
  free.overlap = 0;
  const plan::Selection taken = plan::select(c.collective, shape, plan::Algo{});
  const double links = model::estimate(free, *taken.algorithm, shape, "").seconds;
  free.coding = {1, 1};
  const double elements = model::estimate(free, *taken.algorithm, shape, "").seconds - links;
  const double spent = std::max(c.points.back().seconds - links, 0.02 * c.points.back().seconds);
  const double rate = std::clamp(elements / spent, kLeastRate, kMostRate);
  return model::Rates{rate, rate};
}

}  // namespace

void fit(Profile* profile) {
  const Curve* const inside = native_calls(*profile, false);
  const Curve* const apart = native_calls(*profile, true);
  if (inside == nullptr && apart == nullptr) return;
  if (inside != nullptr) fit_link(*inside, profile);
  if (apart != nullptr) fit_link(*apart, profile);
  const Curve& whole = apart != nullptr ? *apart : *inside;
  profile->node_ranks = std::ranges::max(plan::even_topology(whole.ranks, whole.nodes).size);
  profile->overlap = 0;  // as it was, what went along with the links is not in the codecs' times
  profile->coding = {kMostRate, kMostRate};
  double slowest = kMostRate;
  for (const Curve& c : profile->measured) {
    if (c.scheme == model::kNative || !is_to_go_by(c)) continue;
    const auto rates = fit_codec(c, *profile);
    if (!rates) continue;
    const std::string name = c.scheme.substr(0, c.scheme.find(':'));
    const auto known = profile->codecs.try_emplace(name, *rates).first;
    // Behind a slow link less of it is seen.
    if (rates->encode < known->second.encode) known->second = *rates;
    slowest = std::min(slowest, rates->encode);
  }
  profile->coding = {slowest, slowest};
}

}  // namespace terse::perf
