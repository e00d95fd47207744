#include "fit.h"

#include <algorithm>
#include <bit>
#include <set>

#include "engine/comm/chooser.h"
#include "engine/comm/fusing.h"
#include "plan/link.h"
#include "policy/profile_file.h"

namespace terse::perf {
namespace {

using model::Curve;
using model::Profile;

// Seconds a byte, between a curve's last two points.
double slope(const Curve& c) {
  const Curve::Point &a = *(c.points.end() - 2), &b = c.points.back();
  return std::max(1e-15, (b.seconds - a.seconds) / static_cast<double>(b.bytes - a.bytes));
}

bool is_to_go_by(const Curve& c, bool fused = false) {
  return c.collective == plan::Collective::kAllReduce && c.dtype == codec::Dtype::kFloat32 &&
         c.points.size() >= 2 && c.fused == fused;
}

// Of two or more; as nth_element leaves them.
double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
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
  const double fixed = native.points.front().seconds - p->launch -
                       slope(native) * static_cast<double>(native.points.front().bytes);
  const double within =
      apart && p->within ? steps_of_tree(std::ranges::max(t.size)) * p->within->latency : 0;
  const double latency = std::max(fixed - within, native.points.front().seconds / 10) /
                         steps_of_tree(apart ? t.nodes() : native.ranks);
  const double bandwidth = sent / (slope(native) * static_cast<double>(bytes));
  const model::Link link{std::min(latency, kMaxLatency), std::clamp(bandwidth, kMinRate, kMaxRate)};
  (apart ? p->between : p->within) = link;
  // Of a node with several ranks, where nothing was measured within one, no more is known than that
  // its links were not the slower ones.
  if (apart && t.nodes() < native.ranks && !p->within) p->within = link;
}

// Of a curve's calls of so many bytes. Nothing where they were NCCL's own, for it sends less
// between nodes.
struct Compressed {
  const plan::Algorithm* algorithm;
  plan::Shape shape;
  std::size_t flags;  // of a fused call; 0: it is done in steps
};
std::optional<Compressed> compressed(const Curve& c, size_t bytes, const Profile& p) {
  const auto scheme = on_ranks(parse_scheme(c.scheme), c.ranks);
  const Machines machines{plan::default_chunk_policy(p.gpu), plan::even_topology(c.ranks, c.nodes)};
  const size_t count = bytes / 4;
  if (!scheme || nccl_sends_less(*scheme, {c.collective, count, c.dtype, c.ranks}, machines))
    return {};
  const plan::Shape shape = shape_of({scheme->spec}, count, 4, {c.ranks, 0, 0}, machines);
  const plan::Algorithm* const taken = plan::select(c.collective, shape, plan::Algo{}).algorithm;
  const Fusing any{.window_bytes = ~std::size_t{0}};
  return Compressed{taken, shape, c.fused ? flags_of(any, *taken, shape, *scheme, c.dtype) : 0};
}

double seconds(const Profile& p, const Compressed& call, std::string_view codec) {
  return model::estimate(p, *call.algorithm, call.shape, codec, call.flags).seconds;
}

std::string codec_of(const Curve& c) { return c.scheme.substr(0, c.scheme.find(':')); }

// What its largest call takes beyond what its bytes and launches take, all of it as coding.
std::optional<model::Rates> fit_codec(const Curve& c, const Profile& p) {
  const auto call = compressed(c, c.points.back().bytes, p);
  if (!call) return {};
  Profile free = p;  // of codecs
  free.codecs.clear();
  free.coding = {kMaxRate, kMaxRate};
  const double links = seconds(free, *call, "");
  free.coding = {1, 1};
  const double elements = seconds(free, *call, "") - links;
  const double spent = std::max(c.points.back().seconds - links, 0.02 * c.points.back().seconds);
  const double rate = std::clamp(elements / spent, kMinRate, kMaxRate);
  return model::Rates{rate, rate};
}

// Codecs that calls in steps tell of.
std::set<std::string> codecs_in_steps(const Profile& p) {
  std::set<std::string> found;
  for (const Curve& c : p.measured)
    if (c.scheme != model::kNative && is_to_go_by(c)) found.insert(codec_of(c));
  return found;
}

// Each by its calls in steps, or where there are none by fused ones.
void fit_codecs(Profile* p) {
  const std::set<std::string> in_steps = codecs_in_steps(*p);
  p->codecs.clear();
  p->coding = {kMaxRate, kMaxRate};
  double slowest = kMaxRate;
  for (const Curve& c : p->measured) {
    if (c.scheme == model::kNative || !is_to_go_by(c, !in_steps.contains(codec_of(c)))) continue;
    const auto rates = fit_codec(c, *p);
    if (!rates) continue;
    const auto known = p->codecs.try_emplace(codec_of(c), *rates).first;
    // Behind a slow link less of it is seen.
    if (rates->encode < known->second.encode) known->second = *rates;
    slowest = std::min(slowest, rates->encode);
  }
  p->coding = {slowest, slowest};
}

// Returns true if a curve begins as low as the native one, or near to it: those of calls in steps
// beyond the windows of fused ones do not.
bool begins_small(const Curve& c, const Profile& p) {
  const Curve* const native = native_calls(p, c.nodes > 1);
  return native == nullptr || c.points.front().bytes <= 16 * native->points.front().bytes;
}

// What the smallest compressed calls take beyond links and coding, for each launch: the median.
// What messages to peers take is in it.
double fit_launch(const Profile& p) {
  std::vector<double> launches;
  for (const Curve& c : p.measured) {
    if (c.scheme == model::kNative || !is_to_go_by(c) || !begins_small(c, p)) continue;
    const auto call = compressed(c, c.points.front().bytes, p);
    if (!call) continue;
    Profile other = p;
    other.launch = 0;
    const double without = seconds(other, *call, codec_of(c));
    other.launch = 1;
    const double times = seconds(other, *call, codec_of(c)) - without;
    launches.push_back(std::max(0.0, c.points.front().seconds - without) / times);
  }
  return launches.empty() ? 0 : std::min(median(launches), kMaxLatency);
}

// Bandwidth by what the largest fused calls take beyond their coding, of codecs that are known by
// calls in steps, for all of it is coding else; and what the smallest take beyond both, flags with
// it: the medians.
void fit_fused(Profile* p) {
  const std::set<std::string> in_steps = codecs_in_steps(*p);
  model::FusedCalls& fused = *p->fused;
  std::vector<double> rates, launches;
  for (const Curve& c : p->measured) {
    if (c.scheme == model::kNative || !is_to_go_by(c, true)) continue;
    const auto at = [&](const Curve::Point& point, const model::FusedCalls& calls) {
      Profile other = *p;
      other.fused = calls;
      return seconds(other, *compressed(c, point.bytes, *p), codec_of(c));
    };
    const Curve::Point &small = c.points.front(), &large = c.points.back();
    if (!compressed(c, small.bytes, *p) || !compressed(c, large.bytes, *p)) continue;
    const double coding = at(large, {.launch = fused.launch, .bandwidth = kMaxRate});
    const double bytes = at(large, {.launch = fused.launch, .bandwidth = 1}) - coding;
    if (in_steps.contains(codec_of(c)))
      rates.push_back(bytes / std::max(large.seconds - coding, 0.02 * large.seconds));
    launches.push_back(std::max(0.0, small.seconds - at(small, {.bandwidth = fused.bandwidth})));
  }
  if (!rates.empty()) fused.bandwidth = std::clamp(median(rates), kMinRate, kMaxRate);
  if (!launches.empty()) fused.launch = std::min(median(launches), kMaxLatency);
}

}  // namespace

void fit(Profile* profile) {
  const Curve* const inside = native_calls(*profile, false);
  const Curve* const apart = native_calls(*profile, true);
  if (inside == nullptr && apart == nullptr) return;
  const Curve& whole = apart != nullptr ? *apart : *inside;
  profile->node_ranks = std::ranges::max(plan::even_topology(whole.ranks, whole.nodes).size);
  profile->overlap = 0;  // as it was, what went along with the links is not in the codecs' times
  profile->launch = 0;
  const bool has_fused = std::ranges::any_of(profile->measured, [](const Curve& c) {
    return c.scheme != model::kNative && is_to_go_by(c, true);
  });
  if (has_fused && inside != nullptr) profile->fused = {.bandwidth = kMaxRate};
  // Of each other: by a fifth of the error a round, or less.
  for (int round = 0; round < 5; ++round) {
    if (inside != nullptr) fit_link(*inside, profile);
    if (apart != nullptr) fit_link(*apart, profile);
    fit_codecs(profile);
    profile->launch = fit_launch(*profile);
    if (profile->fused) fit_fused(profile);
  }
}

}  // namespace terse::perf
