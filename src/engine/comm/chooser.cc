#include "engine/comm/chooser.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "codec/float_mode.h"
#include "plan/link.h"

namespace terse {
namespace {

// Max choices kept for a program whose calls all differ in size.
constexpr size_t kMaxChoices = 4096;

// Any root will do if all nodes are alike; a message's peers may be near or far.
int default_root(const Prospect& call, const Machines& machines) {
  const bool any = machines.topology.is_alike() && !plan::is_point_to_point(call.collective);
  return any ? 0 : call.root;
}

// Shape seen from a rank that sends, alike on all ranks.
plan::Shape shape_of_all(const Forms& forms, const Prospect& call, const Machines& machines) {
  const plan::Traits& t = plan::traits(call.collective);
  const int root = default_root(call, machines);
  const int rank = t.recv.who == plan::Who::kRoot   ? (root + 1) % call.ranks
                   : t.send.who == plan::Who::kRoot ? root
                                                    : 0;
  return shape_of(forms, call.count, codec::dtype_size(call.dtype), {call.ranks, rank, root},
                  machines);
}

// Name of a codec in profiles: "int4".
std::string codec_of(const Scheme& scheme) {
  const std::string name = short_name(scheme);
  return name.substr(0, name.find(':'));
}

// Finds the measurements of a scheme, or of its format with another rounding, which takes nearly as
// long.
template <class Measured>
const model::Curve* curve_of(Scheme scheme, const Measured& measured) {
  if (const model::Curve* own = measured(short_name(scheme))) return own;
  using enum codec::Rounding;
  scheme.spec.rounding = scheme.spec.rounding == kNearest ? kStochastic : kNearest;
  return measured(short_name(scheme));
}

Scheme native_scheme() {
  Scheme native;
  native.off = true;
  return native;
}

// Fastest algorithm; if it would send more between nodes than NCCL does, the table's own; none if
// both would.
model::Estimate fastest_allowed(const model::Profile& profile, const plan::Algorithm& usual,
                                const plan::Shape& shape, std::string_view codec) {
  const model::Estimate best = model::fastest(profile, usual.collective, shape, codec);
  if (!plan::sends_more_than_native(best.link)) return best;
  const model::Estimate own = model::estimate(profile, usual, shape, codec);
  return plan::sends_more_than_native(own.link) ? model::Estimate{} : own;
}

}  // namespace

Prospect as_chosen_for(const Prospect& call) {
  constexpr int kDigits = 5;
  const int dropped = std::max(static_cast<int>(std::bit_width(call.count)) - kDigits, 0);
  const size_t step = size_t{1} << dropped, half = step / 2;
  Prospect chosen = call;
  chosen.count = (call.count + half) / step * step;
  return chosen;
}

bool is_for(const Scheme& scheme, plan::Collective collective, codec::Dtype dtype) {
  return scheme.spec.bits < 8 * codec::dtype_size(dtype) && serves(scheme, collective);
}

bool nccl_sends_less(const Scheme& scheme, const Prospect& call, const Machines& machines) {
  const plan::Shape shape = shape_of_all(scheme.forms(), call, machines);
  const plan::Algorithm& taken = *plan::select(call.collective, shape, scheme.algorithm).algorithm;
  return !taken.answers_to(scheme.algorithm) &&
         plan::sends_more_than_native(plan::link_of(taken, shape));
}

Prediction predict_native(const model::Profile& profile, const Prospect& call,
                          const Machines& machines) {
  const plan::Shape shape = shape_of_all({codec::Spec{}}, call, machines);
  return {native_scheme(), model::native_seconds(profile, call.collective, shape)};
}

std::optional<Prediction> predict(const model::Profile& profile, const Scheme& wanted,
                                  const Prospect& call, const Machines& machines) {
  std::optional<Scheme> scheme = on_ranks(wanted, call.ranks);
  if (!scheme || !is_for(*scheme, call.collective, call.dtype)) return {};
  const plan::Shape shape = shape_of_all(scheme->forms(), call, machines);
  const plan::Algorithm* const usual =
      plan::select(call.collective, shape, scheme->algorithm).algorithm;
  if (usual->answers_to(scheme->algorithm))
    return Prediction{*scheme, model::estimate(profile, *usual, shape, codec_of(*scheme)).seconds};
  const model::Estimate best = fastest_allowed(profile, *usual, shape, codec_of(*scheme));
  if (best.algorithm == nullptr) return {};
  // A scheme need not name the table's algorithm.
  if (best.algorithm != usual) scheme->algorithm = *plan::find_algo(best.algorithm->names.own);
  return Prediction{*scheme, best.seconds};
}

std::optional<double> seconds_as_called(const model::Profile& profile, const Scheme& scheme,
                                        const Prospect& call, const Machines& machines) {
  const plan::Shape shape = shape_of_all(scheme.forms(), call, machines);
  const plan::Algorithm& taken = *plan::select(call.collective, shape, scheme.algorithm).algorithm;
  const model::Estimate one = model::estimate(profile, taken, shape, codec_of(scheme));
  if (!taken.answers_to(scheme.algorithm) && plan::sends_more_than_native(one.link)) return {};
  return one.seconds;
}

std::vector<Prediction> predictions(const model::Profile& profile, const Scheme& scheme,
                                    const Prospect& call, const Machines& machines) {
  const plan::Topology& t = machines.topology;
  const size_t bytes =
      call.count * codec::dtype_size(call.dtype) * plan::shards(call.collective, call.ranks);
  const auto measured = [&](std::string_view name) {
    return profile.curve(call.collective, call.dtype, call.ranks, t.nodes(), name);
  };
  std::vector<Scheme> possible = candidates(scheme, call.ranks);
  std::erase_if(possible, [&](const Scheme& s) { return !is_for(s, call.collective, call.dtype); });
  std::vector<Prediction> all;
  if (const model::Curve* curve = measured(model::kNative)) {
    all.push_back({native_scheme(), curve->seconds(bytes), true});
    for (const Scheme& s : possible)
      if (const model::Curve* const own = curve_of(s, measured);
          own != nullptr && !nccl_sends_less(s, call, machines))
        all.push_back({s, own->seconds(bytes), true});
    if (all.size() > 1 || possible.empty()) return all;
    all.front().lacking = model::lacks(profile, t);
    if (all.front().lacking != nullptr) return all;
    all.clear();  // native alone leaves no choice
  }
  if (const char* what = model::lacks(profile, t))
    fail(ncclInvalidUsage, "the profile \"{}\" says nothing of {}, and {} {} on {}", profile.name,
         what, counted(call.ranks, "rank"), call.ranks == 1 ? "is" : "are",
         counted(t.nodes(), "node"));
  all.push_back(predict_native(profile, call, machines));
  for (const Scheme& s : possible)
    if (const auto one = predict(profile, s, call, machines)) all.push_back(*one);
  return all;
}

std::string why_native_alone(const model::Profile& profile, plan::Collective collective,
                             const Prediction& native) {
  return fmt::format(
      "{} stays native: the profile \"{}\" has measured nothing else of such calls, and says "
      "nothing of {}",
      plan::name(collective), profile.name, native.lacking);
}

const Prediction& choose(const std::vector<Prediction>& all) {
  const Prediction& native = all.front();
  const double least = *std::ranges::min_element(all, {}, &Prediction::seconds)->seconds;
  if (least * kMinGain > *native.seconds) return native;
  return *std::ranges::find_if(all.begin() + 1, all.end(), [&](const Prediction& one) {
    return *one.seconds <= least * kAsFast;
  });
}

const Prediction& Chooser::of(const model::Profile* profile, const Scheme& scheme,
                              const Prospect& call, const Machines& machines) {
  Key key{*scheme.automatic, as_chosen_for(call)};
  key.call.root = default_root(call, machines);
  if (const auto known = made_.find(key); known != made_.end()) return known->second;
  if (profile == nullptr) fail(ncclInvalidUsage, "auto needs a profile: {}", kProfileHint);
  if (made_.size() >= kMaxChoices) made_.clear();
  const codec::DefaultFloatEnvironment environment;
  const std::vector<Prediction> all =
      predictions(*profile, without_seed(scheme), as_chosen_for(call), machines);
  if (all.front().lacking != nullptr && told_.insert(call.collective).second)
    log(LogLevel::kWarn, "{}", why_native_alone(*profile, call.collective, all.front()));
  return made_.emplace(key, choose(all)).first->second;
}

}  // namespace terse
