// What is counted of one communicator's calls on this rank (terseStats_t), and the numbers that its
// compressed calls have.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/sizes.h"
#include "engine/observe/meter.h"
#include "plan/topology.h"
#include "terse/terse.h"

namespace terse {

// What was enqueued by one plan.
struct Enqueued {
  size_t calls;  // that are compressed
  Sent sent;
  size_t scratch_bytes;  // that there were for it
  bool of_all_ranks;     // not of messages
};

// What becomes of a call: it is compressed, or skipped though a rule is for it, or no rule is.
enum class Fate : uint8_t { kCompressed, kSkipped, kNative };
constexpr size_t kFates = 3;

class Counters {
 public:
  // The number of the next compressed call, or batch of messages, for the random numbers; and how
  // many calls of all ranks were among them, alike on every rank.
  uint64_t sequence() const { return sequence_; }
  uint64_t collectives() const { return collectives_; }

  void add(const Enqueued& enqueued);

  // A call that went to NCCL as it is, for a TERSE_BYPASS reason.
  void add_native(int reason, const plan::Traffic& sent);

  // The size of a call's whole message.
  void add_size(Fate fate, size_t bytes) { sizes_[static_cast<size_t>(fate)].add(bytes); }
  const std::array<Sizes, kFates>& sizes() const { return sizes_; }

  // What is counted; the rest is zero.
  const terseStats_t& stats() const { return stats_; }

 private:
  uint64_t sequence_ = 0, collectives_ = 0;
  std::array<Sizes, kFates> sizes_;
  terseStats_t stats_{.size = sizeof(terseStats_t)};
};

}  // namespace terse
