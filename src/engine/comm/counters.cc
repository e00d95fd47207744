#include "engine/comm/counters.h"

namespace terse {

void SizeCounts::add(uint64_t bytes) {
  Class& its = classes_[Sizes::class_of(bytes)];
  its.count.add(1);
  its.bytes.add(bytes);
}

Sizes SizeCounts::get() const {
  Sizes sizes;
  for (size_t k = 0; k < classes_.size(); ++k)
    sizes.classes[k] = {classes_[k].count.get(), classes_[k].bytes.get()};
  return sizes;
}

void Counters::add(const Enqueued& enqueued) {
  calls_.add(enqueued.calls);
  if (enqueued.is_fused) fused_calls_.add(enqueued.calls);
  raw_.add(enqueued.sent.raw);
  wire_.add(enqueued.sent.wire);
  scratch_bytes_.raise_to(enqueued.scratch_bytes);
  window_bytes_.raise_to(enqueued.window_bytes);
  ++sequence_;
  if (enqueued.of_all_ranks) ++collectives_;
}

void Counters::add_native(int reason, const plan::Traffic& sent) {
  bypasses_[reason].add(1);
  native_.add(sent);
}

std::array<Sizes, kFates> Counters::sizes() const {
  std::array<Sizes, kFates> all;
  for (size_t fate = 0; fate < kFates; ++fate) all[fate] = sizes_[fate].get();
  return all;
}

terseStats_t Counters::stats() const {
  terseStats_t stats{.size = sizeof(terseStats_t)};
  stats.calls = calls_.get();
  stats.raw_bytes = raw_.bytes.get();
  stats.raw_off_node_bytes = raw_.off_node.get();
  stats.raw_off_pod_bytes = raw_.off_pod.get();
  stats.wire_bytes = wire_.bytes.get();
  stats.wire_off_node_bytes = wire_.off_node.get();
  stats.wire_off_pod_bytes = wire_.off_pod.get();
  stats.native_bytes = native_.bytes.get();
  stats.native_off_node_bytes = native_.off_node.get();
  stats.native_off_pod_bytes = native_.off_pod.get();
  stats.scratch_bytes = scratch_bytes_.get();
  stats.fused_calls = fused_calls_.get();
  stats.window_bytes = window_bytes_.get();
  for (int reason = 0; reason < TERSE_BYPASS_REASONS; ++reason)
    stats.bypasses[reason] = bypasses_[reason].get();
  return stats;
}

}  // namespace terse
