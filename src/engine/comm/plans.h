// Plans of a communicator's calls, made once for each kind of call, of its topology, exact elements
// and table of algorithms.
#pragma once

#include <compare>
#include <functional>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "engine/comm/exclusions.h"
#include "engine/comm/fusing.h"
#include "engine/comm/plan_cache.h"
#include "engine/comm/shape.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "plan/plan.h"

namespace terse {

// Key of a collective's plan on one communicator. Compared as a whole: a cached plan never serves a
// call that differs in anything.
struct PlanKey {
  plan::Collective collective;
  int root;
  size_t count;
  codec::Dtype dtype;
  Forms forms;
  plan::Algo algorithm;
  plan::Delta delta;
  bool verified;  // compared with the native result
  bool learns;    // learns levels first

  auto operator<=>(const PlanKey&) const = default;
};

// What depends on a profile, alike on all ranks; empty: nothing does.
struct Judge {
  // Algorithm that a call names, or has named for it.
  std::function<plan::Algo(const PlanKey&)> algorithm;
  // Returns true if a call is marked as slower than NCCL's. `is_fused`: if all ranks get windows.
  std::function<bool(const PlanKey&, bool is_fused)> is_slow;
};

// One message in the key of a batch's plan.
struct MessageKey {
  bool send;
  int peer;
  size_t count, element_bytes;
  std::optional<codec::Spec> spec;  // empty: native

  auto operator<=>(const MessageKey&) const = default;
};
using BatchKey = std::pmr::vector<MessageKey>;

class Plans {
 public:
  // Max bytes of collectives' plans, and of batches' plans. A large message on 8 ranks has a plan
  // of some 100 KB.
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  Plans(int rank, int ranks, const plan::ChunkPolicy& chunk_policy, size_t max_bytes = kMaxBytes,
        Fusing fusing = {});

  // Returns the plan from the cache; builds and validates it the first time. Throws Error.
  PlanPointer of(const PlanKey& key);
  PlanPointer of(const BatchKey& key);

  // Call as builders see it.
  plan::Shape shape(const Forms& forms, size_t count, size_t element_bytes, int root) const;

  const plan::ChunkPolicy& chunk_policy() const { return chunk_policy_; }
  const Fusing& fusing() const { return fusing_; }
  // Topology of the ranks: unknown before they have exchanged it, unless there is one rank.
  const plan::Topology& topology() const { return topology_; }
  // Copy of topology(), from any thread; unknown if another thread holds it for long.
  plan::Topology topology_now() const;

  // Number of elements of a call that stay exact.
  size_t exact_elements(plan::Collective collective, size_t count) const {
    return exclusions_.elements(collective, count, ranks_);
  }

  // Bytes of all cached plans.
  size_t bytes() const { return plans_.bytes() + batches_.bytes(); }

  // Forgets plans made with another topology, other exclusions or algorithms.
  void learn(plan::Topology topology);
  void exclude(size_t elements, std::vector<plan::Range> ranges);
  // Returns true if anything stays exact.
  bool has_exclusions() const { return !exclusions_.empty(); }
  void use(std::span<const plan::Algorithm> table);
  // Sets what goes by a profile.
  void judge_by(Judge judge);
  // Notes windows that all ranks have, or some rank has refused. Forgets all plans.
  void adopt_windows(const WindowRoom& room);
  void refuse_windows(size_t bytes);

 private:
  plan::Plan make(const PlanKey& key, plan::Algo algorithm, const plan::Shape& shape) const;
  std::shared_ptr<const plan::Plan> with_windows(const PlanKey& key, const plan::Shape& shape,
                                                 const plan::Plan& usual) const;

  const int rank_, ranks_;
  const plan::ChunkPolicy chunk_policy_;
  Fusing fusing_;
  Judge judge_;
  mutable std::mutex learning_;  // guards topology_now()
  plan::Topology topology_;
  Exclusions exclusions_;
  std::span<const plan::Algorithm> algorithms_ = plan::algorithms();
  PlanCache<PlanKey> plans_;
  PlanCache<BatchKey> batches_;
};

}  // namespace terse
