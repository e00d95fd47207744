#include "engine/comm/plans.h"

#include <array>
#include <utility>

#include "base/error.h"
#include "base/patient_lock.h"
#include "engine/comm/shape.h"
#include "plan/fuse.h"
#include "plan/headers.h"
#include "plan/link.h"
#include "plan/native_extras.h"
#include "plan/order.h"

namespace terse {
namespace {

size_t memory_of(const PlanKey&) { return 0; }
size_t memory_of(const BatchKey& key) { return key.size() * sizeof(MessageKey); }

// The plan in a cache, or one that make(what) builds for what describe() gives.
template <class Key, class Describe, class Make>
PlanPointer cached(PlanCache<Key>& plans, const Key& key, const Describe& describe,
                   const Make& make) {
  if (PlanPointer known = plans.find(key)) return known;
  const auto what = describe();
  plan::Plan plan = make(what);
  plan.is_chain = plan::is_chain(plan.steps);
  const std::string wrong = plan::validate(plan, what);
  if (!wrong.empty()) fail(ncclInternalError, "an invalid plan: {}", wrong);
  const auto made = std::make_shared<const plan::Plan>(std::move(plan));
  plans.add(key, memory_of(key), made);
  return made;
}

plan::Message message_of(const MessageKey& key) {
  return {.send = key.send,
          .peer = key.peer,
          .count = key.count,
          .element_bytes = key.element_bytes,
          .packed = key.spec.has_value(),
          .packing = key.spec ? packing_of(*key.spec) : plan::Packing{}};
}

}  // namespace

Plans::Plans(int rank, int ranks, const plan::ChunkPolicy& chunk_policy, size_t max_bytes,
             Fusing fusing)
    : rank_(rank),
      ranks_(ranks),
      chunk_policy_(chunk_policy),
      fusing_(std::move(fusing)),
      plans_(max_bytes),
      batches_(max_bytes) {
  if (ranks == 1) topology_ = plan::topology_of(std::array{uint64_t{0}});
}

PlanPointer Plans::of(const PlanKey& key) {
  const auto shape = [&] {
    return this->shape(key.forms, key.count, codec::dtype_size(key.dtype), key.root);
  };
  return cached(plans_, key, shape, [&](const plan::Shape& s) {
    const plan::Algo algorithm = judge_.algorithm ? judge_.algorithm(key) : key.algorithm;
    plan::Plan plan = make(key, algorithm, s);
    plan.max_scratch_bytes = plan.scratch_bytes;
    plan.with_windows = with_windows(key, s, plan);
    plan.is_slow = judge_.is_slow && judge_.is_slow(key, plan.with_windows != nullptr);
    if (!plan::traits(key.collective).rooted) return plan;
    for (const int rank : {s.root, (s.root + 1) % s.ranks}) {  // and the others alike
      plan::Shape other = s;
      other.rank = rank;
      plan.max_scratch_bytes =
          std::max(plan.max_scratch_bytes, make(key, algorithm, other).scratch_bytes);
    }
    return plan;
  });
}

plan::Plan Plans::make(const PlanKey& key, plan::Algo algorithm, const plan::Shape& s) const {
  const plan::Selection selection = plan::select(key.collective, s, algorithm, algorithms_);
  plan::Plan plan = plan::build(*selection.algorithm, s, key.delta);
  plan.link = plan::link_of(*selection.algorithm, s);
  plan.asked_for = selection.algorithm->answers_to(key.algorithm);
  plan.codebook_bytes = s.packing.codebook_bytes;
  plan::NativeExtras extras{.verified = key.verified, .learns = key.learns};
  const plan::Gathers gathers = key.delta.gathers;
  const bool quantizes =
      gathers == plan::Gathers::kAsUsual || gathers == plan::Gathers::kDifferences;
  if (quantizes) extras.exact = exclusions_.of(key.collective, key.count, ranks_);
  plan = plan::with(std::move(plan), key.collective, s, extras);
  plan::add_natives(plan.steps, s, &plan.link);
  if (quantizes) plan::shadow_what_stays_exact(plan, s, key.delta);
  return plan::with_headers(std::move(plan), s);
}

std::shared_ptr<const plan::Plan> Plans::with_windows(const PlanKey& key, const plan::Shape& s,
                                                      const plan::Plan& usual) const {
  const plan::Delta plain{.own_exact = key.delta.own_exact};
  const bool is_plain = !key.verified && !key.learns && key.delta == plain &&
                        exclusions_.of(key.collective, key.count, ranks_).empty();
  if (fusing_.window_bytes == 0 || !is_plain) return nullptr;
  if (fusing_.takes && !fusing_.takes(key.forms, key.dtype)) return nullptr;
  const plan::Algorithm& algorithm =
      *plan::select(key.collective, s, key.algorithm, algorithms_).algorithm;
  plan::Fusion fusion = fusion_of(algorithm, s, plain, fusing_.window_bytes);
  if (fusion.by_rank.empty() || !fusing_.allows(room_of(fusion.by_rank.front()))) return nullptr;
  if (const std::string wrong = plan::validate(fusion.by_rank, s); !wrong.empty())
    fail(ncclInternalError, "an invalid fused plan: {}", wrong);
  return std::make_shared<const plan::Plan>(
      plan::with_windows(usual, std::move(fusion.by_rank[static_cast<size_t>(rank_)])));
}

PlanPointer Plans::of(const BatchKey& key) {
  const auto batch = [&] {
    plan::Batch b{.ranks = ranks_, .rank = rank_, .chunk_policy = chunk_policy_, .messages = {}};
    for (const MessageKey& message : key) b.messages.push_back(message_of(message));
    return b;
  };
  return cached(batches_, key, batch, plan::point_to_point);
}

plan::Shape Plans::shape(const Forms& forms, size_t count, size_t element_bytes, int root) const {
  return shape_of(forms, count, element_bytes, {ranks_, rank_, root}, {chunk_policy_, topology_});
}

plan::Topology Plans::topology_now() const {
  const auto lock = patient_lock(learning_);
  return lock.owns_lock() ? topology_ : plan::Topology{};
}

void Plans::learn(plan::Topology topology) {
  {
    const std::lock_guard lock(learning_);
    topology_ = std::move(topology);
  }
  plans_.clear();
}

void Plans::exclude(size_t elements, std::vector<plan::Range> ranges) {
  exclusions_.set(elements, std::move(ranges));
  plans_.clear();
}

void Plans::adopt_windows(const WindowRoom& room) {
  fusing_.room = room;
  plans_.clear();
}

void Plans::refuse_windows(size_t bytes) {
  fusing_.refused_bytes = std::min(fusing_.refused_bytes, bytes);
  plans_.clear();
}

void Plans::judge_by(Judge judge) {
  judge_ = std::move(judge);
  plans_.clear();
}

void Plans::use(std::span<const plan::Algorithm> table) {
  algorithms_ = table;
  plans_.clear();
}

}  // namespace terse
