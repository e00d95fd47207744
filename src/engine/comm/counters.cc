#include "engine/comm/counters.h"

#include <algorithm>

namespace terse {

void Counters::add(const Enqueued& enqueued) {
  stats_.calls += enqueued.calls;
  stats_.raw_bytes += enqueued.sent.raw.bytes;
  stats_.raw_off_node_bytes += enqueued.sent.raw.off_node;
  stats_.wire_bytes += enqueued.sent.wire.bytes;
  stats_.wire_off_node_bytes += enqueued.sent.wire.off_node;
  stats_.scratch_bytes = std::max(stats_.scratch_bytes, enqueued.scratch_bytes);
  ++sequence_;
  if (enqueued.of_all_ranks) ++collectives_;
}

void Counters::add_native(int reason, const plan::Traffic& sent) {
  ++stats_.bypasses[reason];
  stats_.native_bytes += sent.bytes;
  stats_.native_off_node_bytes += sent.off_node;
}

}  // namespace terse
