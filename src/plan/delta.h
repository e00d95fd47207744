// AllGather of differences to what all ranks hold already: SDP4Bit's quantization of weight
// differences (arXiv 2410.15526, section 3).
//
// All ranks hold a base of each shard, the same bits: its owner a shadow of it, the others the
// shadow, too, or what they gathered last. The owner sends the quantized difference of its shard to
// the base, and all add it to the base, the owner included; so what quantization leaves out is part
// of the next difference. Whether all do hold the same is found out before a call, and decides how
// it goes.
#pragma once

#include <compare>

#include "plan/algorithms.h"

namespace terse::plan {

// Where the base of others' shards is: in the receive buffer, which then must be left as it is
// between calls; or in memory of terse's, as large.
enum class Base : uint8_t { kNone, kInplace, kShadow };

// What goes over the links.
enum class Gathers : uint8_t {
  kAsUsual,
  kInFull,       // by NCCL, as it is: and this is the base of the next call
  kDifferences,  // to the base
  kNothing       // for all ranks' shards are what they were
};

struct Delta {
  Base base = Base::kNone;
  Gathers gathers = Gathers::kAsUsual;
  // A rank's own shard comes to its receive buffer as it is, not as sent: an optimizer may keep its
  // weights there, as Megatron-LM's does in fp32, or write them back from what was gathered, as
  // FSDP's summon_full_params() does. Of AllGather alone, with a base or without.
  bool own_exact = false;

  auto operator<=>(const Delta&) const = default;
};

// The plan of a call by an algorithm, which is for AllGather where the delta gathers otherwise than
// as usual.
Plan build(const Algorithm& algorithm, const Shape& shape, const Delta& delta);

// Bytes of state that a rank keeps: shadows of its own shard, or of all.
size_t shadow_bytes(Base base, int ranks, size_t shard_bytes);

// Elements that come to the receive buffer beside the plan (plan/native_extras.h) come to the base,
// too.
void shadow_what_stays_exact(Plan& plan, const Shape& shape, const Delta& delta);

}  // namespace terse::plan
