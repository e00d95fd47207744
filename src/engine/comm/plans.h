// The plans of a communicator's calls, made once for each kind of call, and what they are made by:
// the ranks' nodes, the elements that stay exact, the table of algorithms.
#pragma once

#include <compare>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "codec/codec.h"
#include "engine/comm/exclusions.h"
#include "engine/comm/plan_cache.h"
#include "engine/comm/shape.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "plan/plan.h"

namespace terse {

// What identifies a collective's plan on one communicator. Compared as a whole, as all such keys:
// whatever a format or a call has more, a cached plan is never that of another.
struct PlanKey {
  plan::Collective collective;
  int root;
  size_t count;
  codec::Dtype dtype;
  codec::Spec spec;
  Intra intra;
  plan::Algo algorithm;
  plan::Delta delta;
  bool verified;  // it is compared with the native result
  bool learns;    // the levels of its codes, first

  auto operator<=>(const PlanKey&) const = default;
};

// One message of what identifies the plan of a batch of them.
struct MessageKey {
  bool send;
  int peer;
  size_t count, element_bytes;
  std::optional<codec::Spec> spec;  // empty: it travels as it is

  auto operator<=>(const MessageKey&) const = default;
};
using BatchKey = std::pmr::vector<MessageKey>;

class Plans {
 public:
  // Of the collectives' plans, and as much of the batches'. That of a large message on 8 ranks has
  // some 100 KB.
  static constexpr size_t kMaxBytes = size_t{64} << 20;

  Plans(int rank, int ranks, const plan::ChunkPolicy& chunk_policy, size_t max_bytes = kMaxBytes);

  // From the cache; built and validated the first time. Throws Error.
  PlanPointer of(const PlanKey& key);
  PlanPointer of(const BatchKey& key);

  // A call as builders see it.
  plan::Shape shape(const Forms& forms, size_t count, size_t element_bytes, int root) const;

  const plan::ChunkPolicy& chunk_policy() const { return chunk_policy_; }
  // Which ranks share a node: not known before the ranks have told each other, but of one alone.
  const plan::Topology& topology() const { return topology_; }
  // A copy, of any thread; not known where another one has it for long.
  plan::Topology topology_now() const;

  // How many elements of a call stay exact.
  size_t exact_elements(plan::Collective collective, size_t count) const {
    return exclusions_.elements(collective, count, ranks_);
  }

  // Of all that are kept.
  size_t bytes() const { return plans_.bytes() + batches_.bytes(); }

  // Plans that were made with other nodes, exclusions or algorithms are forgotten.
  void learn(plan::Topology topology);
  void exclude(size_t elements, std::vector<plan::Range> ranges);
  void use(std::span<const plan::Algorithm> table);

 private:
  plan::Plan make(const PlanKey& key, const plan::Shape& shape) const;

  const int rank_, ranks_;
  const plan::ChunkPolicy chunk_policy_;
  mutable std::mutex learning_;  // of what topology_now() reads
  plan::Topology topology_;
  Exclusions exclusions_;
  std::span<const plan::Algorithm> algorithms_ = plan::algorithms();
  PlanCache<PlanKey> plans_;
  PlanCache<BatchKey> batches_;
};

}  // namespace terse
