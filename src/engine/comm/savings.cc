#include "engine/comm/savings.h"

#include <algorithm>

#include "codec/float_mode.h"

namespace terse {
namespace {

// Max kinds of calls kept for a program whose calls all differ in size.
constexpr size_t kMaxKnown = 256;

Saving predicted(const model::Profile& profile, const Scheme& scheme, const Prospect& call,
                 const Machines& machines) {
  if (model::lacks(profile, machines.topology) != nullptr) return {.algorithm = scheme.algorithm};
  const codec::DefaultFloatEnvironment environment;
  const double native = predict_native(profile, call, machines).seconds.value_or(0);
  const std::optional<Prediction> own = predict_as_called(profile, scheme, call, machines);
  return own ? Saving{native, *own->seconds, own->algorithm}
             : Saving{native, native, scheme.algorithm};
}

}  // namespace

Saving Savings::of(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                   const Machines& machines) {
  if (profile == nullptr || plan::is_point_to_point(call.collective))
    return {.algorithm = scheme.algorithm};
  Prospect like = as_chosen_for(call);
  like.root = default_root(call, machines);
  const Scheme own = without_seed(scheme);
  const auto known = std::ranges::find_if(
      known_, [&](const Known& k) { return k.call == like && k.scheme == own; });
  if (known != known_.end()) return known->saving;
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.push_back({own, like, predicted(*profile, own, like, machines)});
  return known_.back().saving;
}

}  // namespace terse
