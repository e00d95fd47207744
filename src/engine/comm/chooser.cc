#include "engine/comm/chooser.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "codec/float_mode.h"
#include "engine/comm/fusing.h"
#include "model/simulate.h"
#include "model/simulate_native.h"
#include "plan/link.h"
#include "policy/match.h"

namespace terse {
namespace {

// Max choices kept for a program whose calls all differ in size.
constexpr size_t kMaxChoices = 4096;

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

// A call with a scheme: its shape, and the table's algorithm or the one that the scheme names.
struct SchemeCall {
  plan::Shape shape;
  const plan::Algorithm& algorithm;
  bool names_algorithm;
};
SchemeCall select(const Scheme& scheme, const Prospect& call, const Machines& machines) {
  plan::Shape shape = shape_of_all(scheme.forms(), call, machines);
  const plan::Algorithm& taken = *plan::select(call.collective, shape, scheme.algorithm).algorithm;
  return {std::move(shape), taken, taken.answers_to(scheme.algorithm)};
}

// First algorithm that applies in groups of nodes, or without any; null: none.
const plan::Algorithm* first_applying(plan::Collective collective, const plan::Shape& shape,
                                      bool in_groups) {
  const auto all = plan::algorithms();
  const auto found = std::ranges::find_if(all, [&](const plan::Algorithm& a) {
    const plan::Algo wish = in_groups ? *plan::find_algo(a.names.own) : plan::Algo{};
    return a.groups == in_groups && plan::is_for(a, collective, shape) &&
           a.applies(shape, wish).applies;
  });
  return found == all.end() ? nullptr : &*found;
}

using FlagsOf = std::function<size_t(const plan::Algorithm&)>;

// Flags of a call by each algorithm; none, without a look at any, where the profile has no fused
// calls.
FlagsOf flags_of(const model::Profile& profile, const Scheme& scheme, const Prospect& call,
                 const plan::Shape& shape, const Machines& machines) {
  return [&, counts = profile.fused && machines.fusing != nullptr](const plan::Algorithm& by) {
    return counts ? terse::flags_of(*machines.fusing, by, shape, scheme, call.dtype) : 0;
  };
}

// Algorithm in groups of nodes in place of one without any, or the reverse, between which the
// profile decides; null: it does not, as where it has measured such calls.
const plan::Algorithm* alternative(const model::Profile& profile, const Prospect& call,
                                   const SchemeCall& usual, const plan::Topology& t) {
  if (usual.names_algorithm || t.nodes() < 2 || (t.pods() != 0 && !profile.pods) ||
      model::lacks(profile, t) != nullptr ||
      profile.curve(call.collective, call.dtype, call.ranks, t.nodes(), model::kNative) != nullptr)
    return nullptr;
  return first_applying(call.collective, usual.shape, !usual.algorithm.groups);
}

plan::Algo named(const plan::Algorithm& algorithm) { return *plan::find_algo(algorithm.names.own); }

// Estimate of a call by algorithm_by().
struct AsCalled {
  plan::Algo algorithm;
  model::Estimate estimate;
};
AsCalled as_called(const model::Profile& profile, const Scheme& scheme, const Prospect& call,
                   const SchemeCall& usual, const Machines& machines) {
  const FlagsOf flags = flags_of(profile, scheme, call, usual.shape, machines);
  const auto estimate = [&](const plan::Algorithm& by) {
    return model::estimate(profile, by, usual.shape, codec_of(scheme), flags(by));
  };
  const model::Estimate own = estimate(usual.algorithm);
  const plan::Algorithm* const other = alternative(profile, call, usual, machines.topology);
  if (other == nullptr) return {scheme.algorithm, own};
  const model::Estimate by_other = estimate(*other);
  const bool sends_more =
      plan::sends_more_than_native(by_other.link) && !plan::sends_more_than_native(own.link);
  const bool is_faster = by_other.seconds < kMaxLoss * own.seconds;
  // By name, as the table may have another one for a count that is not rounded.
  return is_faster && !sends_more ? AsCalled{named(*other), by_other}
                                  : AsCalled{named(usual.algorithm), own};
}

// Fastest algorithm; if it would send more between nodes than NCCL does, the table's own; none if
// both would.
model::Estimate fastest_allowed(const model::Profile& profile, const plan::Algorithm& usual,
                                const plan::Shape& shape, std::string_view codec,
                                const FlagsOf& flags_of) {
  const model::Estimate best = model::fastest(profile, usual.collective, shape, codec, flags_of);
  if (!plan::sends_more_than_native(best.link)) return best;
  const model::Estimate own = model::estimate(profile, usual, shape, codec, flags_of(usual));
  return plan::sends_more_than_native(own.link) ? model::Estimate{} : own;
}

}  // namespace

int default_root(const Prospect& call, const Machines& machines) {
  const bool any = machines.topology.is_alike() && !plan::is_point_to_point(call.collective);
  return any ? 0 : call.root;
}

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

bool names_its_algorithm(const Scheme& scheme, const Prospect& call, const Machines& machines) {
  return select(scheme, call, machines).names_algorithm;
}

plan::Algo algorithm_by(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                        const Machines& machines) {
  if (profile == nullptr || plan::is_point_to_point(call.collective)) return scheme.algorithm;
  const codec::DefaultFloatEnvironment environment;
  const SchemeCall usual = select(scheme, call, machines);
  if (alternative(*profile, call, usual, machines.topology) == nullptr) return scheme.algorithm;
  return as_called(*profile, scheme, call, usual, machines).algorithm;
}

bool nccl_sends_less(const Scheme& scheme, const Prospect& call, const Machines& machines) {
  const auto [shape, algorithm, names_algorithm] = select(scheme, call, machines);
  return !names_algorithm && plan::sends_more_than_native(plan::link_of(algorithm, shape));
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
  const SchemeCall usual = select(*scheme, call, machines);
  const FlagsOf flags = flags_of(profile, *scheme, call, usual.shape, machines);
  const std::string codec = codec_of(*scheme);
  const model::Estimate best =
      usual.names_algorithm
          ? model::estimate(profile, usual.algorithm, usual.shape, codec, flags(usual.algorithm))
          : fastest_allowed(profile, usual.algorithm, usual.shape, codec, flags);
  if (best.algorithm == nullptr) return {};
  // A scheme need not name the table's algorithm.
  if (best.algorithm != &usual.algorithm)
    scheme->algorithm = *plan::find_algo(best.algorithm->names.own);
  return Prediction{.scheme = *scheme, .seconds = best.seconds, .is_fused = best.is_fused};
}

std::optional<Prediction> predict_as_called(const model::Profile& profile, const Scheme& scheme,
                                            const Prospect& call, const Machines& machines) {
  const SchemeCall usual = select(scheme, call, machines);
  const auto [algorithm, one] = as_called(profile, scheme, call, usual, machines);
  if (!usual.names_algorithm && plan::sends_more_than_native(one.link)) return {};
  return Prediction{
      .scheme = scheme, .seconds = one.seconds, .is_fused = one.is_fused, .algorithm = algorithm};
}

double simulate_as_called(const model::Profile& profile, const Scheme& scheme, const Prospect& call,
                          const Machines& machines) {
  const SchemeCall usual = select(scheme, call, machines);
  const model::Estimate one = as_called(profile, scheme, call, usual, machines).estimate;
  const model::Simulation simulation =
      model::simulate(profile, *one.algorithm, usual.shape, codec_of(scheme));
  if (!simulation.failure.empty()) fail(ncclInvalidUsage, "{}", simulation.failure);
  return simulation.seconds;
}

std::optional<double> simulate_native(const model::Profile& profile, const Prospect& call,
                                      const Machines& machines) {
  return model::simulate_native(profile, call.collective,
                                shape_of_all({codec::Spec{}}, call, machines));
}

bool is_fused(const Scheme& scheme, const Prospect& call, const Machines& machines) {
  if (machines.fusing == nullptr) return false;
  const SchemeCall own = select(scheme, call, machines);
  return flags_of(*machines.fusing, own.algorithm, own.shape, scheme, call.dtype) != 0;
}

std::vector<Prediction> predictions(const model::Profile& profile, const Scheme& scheme,
                                    const Prospect& call, const Machines& machines) {
  const plan::Topology& t = machines.topology;
  const size_t bytes =
      call.count * codec::dtype_size(call.dtype) * plan::shards(call.collective, call.ranks);
  const auto measured = [&](std::string_view name, bool fused = false) {
    return profile.curve(call.collective, call.dtype, call.ranks, t.nodes(), name, fused);
  };
  const bool has_fused = std::ranges::any_of(profile.measured, &model::Curve::fused);
  std::vector<Scheme> possible = candidates(scheme, call.ranks);
  std::erase_if(possible, [&](const Scheme& s) { return !is_for(s, call.collective, call.dtype); });
  std::vector<Prediction> all;
  if (const model::Curve* curve = measured(model::kNative)) {
    const size_t least = std::max(bytes, curve->points.front().bytes);
    const auto add = [&](bool any_way) {
      for (const Scheme& s : possible) {
        const bool fused = has_fused && is_fused(s, call, machines);
        const model::Curve* const own =
            curve_of(s, [&](std::string_view name) { return measured(name, fused); });
        if (own == nullptr || nccl_sends_less(s, call, machines)) continue;
        // Of calls that were fused up to some size, those in steps say nothing of smaller ones.
        const bool is_alike =
            own->fused == fused && (!has_fused || own->points.front().bytes <= least);
        if (is_alike || any_way) all.push_back({s, own->seconds(bytes), true, fused && own->fused});
      }
    };
    all.push_back({native_scheme(), curve->seconds(bytes), true});
    add(false);
    const char* const lacking = model::lacks(profile, t);
    if (all.size() == 1 && lacking != nullptr) add(true);
    if (all.size() > 1 || possible.empty()) return all;
    all.front().lacking = lacking;
    if (lacking != nullptr) return all;
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

namespace {

// Seconds of a call natively, and fused with a scheme: as measured, or else as the model has them.
// Empty: it is not fused, or the profile says nothing of it.
struct FusedTimes {
  double native, fused;
};
std::optional<FusedTimes> fused_times(const model::Profile& profile, const Scheme& scheme,
                                      const Prospect& call, size_t bytes,
                                      const Machines& machines) {
  const int nodes = machines.topology.nodes();
  const auto measured = [&](std::string_view name) -> const model::Curve* {
    return profile.curve(call.collective, call.dtype, call.ranks, nodes, name, true);
  };
  const model::Curve *const native = measured(model::kNative), *const own =
                                                                   curve_of(scheme, measured);
  if (native != nullptr && own != nullptr && own->fused && is_fused(scheme, call, machines))
    return FusedTimes{native->seconds(bytes), own->seconds(bytes)};
  if (model::lacks(profile, machines.topology) != nullptr) return {};
  const std::optional<Prediction> one = predict_as_called(profile, scheme, call, machines);
  if (!one || !one->is_fused) return {};
  return FusedTimes{*predict_native(profile, call, machines).seconds, *one->seconds};
}

}  // namespace

size_t fused_from(const model::Profile& profile, plan::Collective collective, codec::Dtype dtype,
                  int ranks, const Machines& machines) {
  if (!profile.fused || machines.topology.nodes() != 1 || plan::is_point_to_point(collective))
    return ~size_t{0};
  const codec::DefaultFloatEnvironment environment;
  static const Scheme int8 = parse_scheme("int8");
  const size_t shards = plan::shards(collective, ranks);
  const size_t least = shards * (profile.fused->estimate ? kUsualShard : kMinFusedShard);
  const size_t usual =
      default_min_bytes({.collective = collective, .ranks = ranks, .gpu = profile.gpu});
  size_t from = ~size_t{0};
  for (size_t bytes = std::bit_ceil(usual); bytes >= least; bytes /= 2) {
    const size_t count = bytes / shards / codec::dtype_size(dtype);
    const auto times =
        fused_times(profile, int8, {collective, count, dtype, ranks}, bytes, machines);
    if (!times || times->fused * kMinGain > times->native) break;
    from = bytes;
  }
  return from;
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
