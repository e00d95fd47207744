// Counters of one communicator's calls on this rank (terseStats_t), and the numbers of its
// compressed calls.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/sizes.h"
#include "engine/observe/meter.h"
#include "plan/topology.h"
#include "terse/terse.h"

namespace terse {

// Amounts that one plan enqueued.
struct Enqueued {
  size_t calls;  // compressed ones
  bool is_fused;
  Sent sent;
  size_t scratch_bytes;  // allocated for it
  size_t window_bytes;   // of those, the communicator's windows
  bool of_all_ranks;     // false for messages
};

// Outcome of a call: compressed, native though a rule is for it, or native as no rule is.
enum class Outcome : uint8_t { kCompressed, kSkipped, kNative };
constexpr size_t kFates = 3;

// Counter that one thread writes and any may read, at the cost of a plain one.
class Count {
 public:
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }
  void add(uint64_t more) { value_.store(get() + more, std::memory_order_relaxed); }
  void raise_to(uint64_t value) {
    if (value > get()) value_.store(value, std::memory_order_relaxed);
  }

 private:
  std::atomic<uint64_t> value_{0};
};

// Counters of sizes.
class SizeCounts {
 public:
  void add(uint64_t bytes);
  Sizes get() const;

 private:
  struct Class {
    Count count, bytes;
  };
  std::array<Class, std::tuple_size_v<decltype(Sizes::classes)>> classes_;
};

class Counters {
 public:
  // Number of the next compressed call, or batch of messages, for the random numbers; and the
  // number of calls of all ranks among them, alike on every rank.
  uint64_t sequence() const { return sequence_; }
  uint64_t collectives() const { return collectives_; }

  void add(const Enqueued& enqueued);

  // Counts a native call, for a TERSE_BYPASS reason.
  void add_native(int reason, const plan::Traffic& sent);

  // Counts the size of a call's whole message.
  void add_size(Outcome fate, size_t bytes) { sizes_[static_cast<size_t>(fate)].add(bytes); }

  // Returns the counters, from any thread; the rest is zero.
  std::array<Sizes, kFates> sizes() const;
  terseStats_t stats() const;

 private:
  uint64_t sequence_ = 0, collectives_ = 0;
  std::array<SizeCounts, kFates> sizes_;
  struct {
    Count bytes, off_node, off_pod;
    void add(const plan::Traffic& more) {
      bytes.add(more.bytes);
      off_node.add(more.off_node);
      off_pod.add(more.off_pod);
    }
  } raw_, wire_, native_;
  Count calls_, fused_calls_, scratch_bytes_, window_bytes_, bypasses_[TERSE_BYPASS_REASONS];
};

}  // namespace terse
