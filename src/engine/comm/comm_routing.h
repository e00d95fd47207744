// How a communicator's calls are decided on: for the way in (engine/call), and for what asks which
// plan a call has.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/comm/chooser.h"
#include "engine/comm/plans.h"
#include "engine/comm/reductions.h"
#include "engine/comm/savings.h"

namespace terse {

class CommRouting {
 public:
  CommRouting(int rank, int ranks, const plan::ChunkPolicy& chunks, Fusing fusing)
      : plans_(rank, ranks, chunks, Plans::kMaxBytes, std::move(fusing)) {}

  Operators& operators() { return operators_; }  // made on this communicator
  const Operators& operators() const { return operators_; }
  Plans& plans() { return plans_; }
  const Plans& plans() const { return plans_; }
  Chooser& chooser() { return chooser_; }
  Savings& savings() { return savings_; }

  const plan::Topology& topology() const { return plans_.topology(); }

  // Built-in profile nearest to the ranks' machine, if the settings have none; null: none is near.
  const model::Profile* nearest_profile() const {
    return nearest_profile_ ? &*nearest_profile_ : nullptr;
  }
  // `own`: profile of the settings, which outlives it; null: they have none.
  void learn(std::optional<model::Profile> nearest, const model::Profile* own) {
    nearest_profile_ = std::move(nearest);
    const model::Profile* const by = own != nullptr ? own : nearest_profile();
    if (by == nullptr) return;
    plans_.judge_by(
        {.algorithm =
             [this, by](const PlanKey& key) {
               return savings_.of(by, scheme_of(key), prospect_of(key), machines()).algorithm;
             },
         .is_slow =
             [this, by](const PlanKey& key, bool is_fused) {
               return (by->fused || !is_fused) &&
                      savings_.are_a_loss(by, scheme_of(key), prospect_of(key), machines());
             }});
  }
  // Notes windows that all ranks have, or that some rank does not have: which calls are fused from
  // then on, and chosen as such. At the same call on all ranks.
  void adopt_windows(const WindowRoom& room) {
    plans_.adopt_windows(room);
    forget_choices();
  }
  void refuse_windows(size_t bytes) {
    plans_.refuse_windows(bytes);
    forget_choices();
  }

  // Bytes from which on fused calls gain, by a profile; null: there is none.
  size_t fused_from(const model::Profile* profile, plan::Collective collective,
                    codec::Dtype dtype) {
    if (profile == nullptr || !profile->fused || topology().nodes() != 1) return ~size_t{0};
    const auto key = std::pair(collective, dtype);
    if (const auto known = fused_from_.find(key); known != fused_from_.end()) return known->second;
    const int ranks = static_cast<int>(topology().node.size());
    return fused_from_[key] = terse::fused_from(*profile, collective, dtype, ranks, machines());
  }

  // What choices go by.
  Machines machines() const { return {plans_.chunk_policy(), plans_.topology(), &plans_.fusing()}; }

  // Scheme in place of the rules'; null: the rules decide. Each push takes one pop.
  const Scheme* own_scheme() const { return schemes_.empty() ? nullptr : schemes_.back().get(); }
  void push_scheme(std::shared_ptr<const Scheme> scheme) { schemes_.push_back(std::move(scheme)); }
  void pop_scheme() {
    if (!schemes_.empty()) schemes_.pop_back();
  }

  // While paused, calls by the policy stay native. Each pause() takes one resume(); one more does
  // nothing.
  bool is_paused() const { return pauses_ > 0; }
  void pause() { ++pauses_; }
  void resume() { pauses_ -= pauses_ > 0; }

 private:
  void forget_choices() {
    chooser_.forget();
    savings_.forget();
    fused_from_.clear();
  }

  static Scheme scheme_of(const PlanKey& key) {
    Scheme scheme;
    scheme.spec = key.forms.spec;
    scheme.intra = key.forms.intra;
    scheme.second = key.forms.second;
    scheme.outer = key.forms.outer;
    scheme.algorithm = key.algorithm;
    return scheme;
  }
  Prospect prospect_of(const PlanKey& key) const {
    return as_chosen_for(
        {key.collective, key.count, key.dtype, static_cast<int>(topology().node.size()), key.root});
  }

  Operators operators_;
  Plans plans_;
  Chooser chooser_;
  Savings savings_;
  std::optional<model::Profile> nearest_profile_;
  std::map<std::pair<plan::Collective, codec::Dtype>, size_t> fused_from_;
  std::vector<std::shared_ptr<const Scheme>> schemes_;
  int pauses_ = 0;
};

}  // namespace terse
