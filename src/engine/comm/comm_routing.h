// How a communicator's calls are decided on: for the way in (engine/call), and for what asks which
// plan a call has.
#pragma once

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
  void learn(std::optional<model::Profile> nearest) { nearest_profile_ = std::move(nearest); }

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
  Operators operators_;
  Plans plans_;
  Chooser chooser_;
  Savings savings_;
  std::optional<model::Profile> nearest_profile_;
  std::vector<std::shared_ptr<const Scheme>> schemes_;
  int pauses_ = 0;
};

}  // namespace terse
