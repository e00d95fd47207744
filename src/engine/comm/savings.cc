#include "engine/comm/savings.h"

#include <algorithm>

#include "codec/float_mode.h"

namespace terse {
namespace {

// Max kinds of calls kept for a program whose calls all differ in size.
constexpr size_t kMaxKnown = 256;

Saving predicted(const model::Profile& profile, const Scheme& scheme, const Prospect& call,
                 const Machines& machines) {
  if (model::lacks(profile, machines.topology) != nullptr) return {};
  const codec::DefaultFloatEnvironment environment;
  const double native = predict_native(profile, call, machines).seconds.value_or(0);
  const std::optional<Prediction> own = predict_as_called(profile, scheme, call, machines);
  return {native, own ? *own->seconds : native};
}

}  // namespace

Saving Savings::of(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                   const Machines& machines) {
  if (profile == nullptr || plan::is_point_to_point(call.collective)) return {};
  const Prospect like = as_chosen_for(call);
  const Scheme own = without_seed(scheme);
  const auto known = std::ranges::find_if(
      known_, [&](const Known& k) { return k.call == like && k.scheme == own; });
  if (known != known_.end()) return known->saving;
  if (known_.size() >= kMaxKnown) known_.clear();
  known_.push_back({own, like, predicted(*profile, own, like, machines)});
  return known_.back().saving;
}

}  // namespace terse
