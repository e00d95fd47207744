// AllGather of differences to what all ranks hold already: SDP4Bit's quantization of weight
// differences (arXiv 2410.15526, section 3).
//
// All ranks hold the same bits as a base of each shard: its owner a shadow of it, the others the
// shadow, too, or what they gathered last. The owner sends the quantized difference of its shard to
// the base, and all add it to the base, the owner included: the error of quantization is part of
// the next difference. Ranks find out before a call whether all hold the same, which decides how it
// goes.
#pragma once

#include <compare>

#include "plan/algorithms.h"

namespace terse::plan {

// Place of the base of others' shards: the receive buffer, which must not change between calls; or
// memory of terse's, as large.
enum class Base : uint8_t { kNone, kInplace, kShadow };

// Data that goes over the links.
enum class Gathers : uint8_t {
  kAsUsual,
  kInFull,       // exact, by NCCL: the base of the next call
  kDifferences,  // differences to the base
  kNothing       // nothing, as all ranks' shards are unchanged
};

struct Delta {
  Base base = Base::kNone;
  Gathers gathers = Gathers::kAsUsual;
  // The receive buffer gets the rank's own shard exact, not as sent: an optimizer may keep its
  // weights there, as Megatron-LM's does in fp32, or write them back from what was gathered, as
  // FSDP's summon_full_params() does. For AllGather alone, with a base or without.
  bool own_exact = false;

  auto operator<=>(const Delta&) const = default;
};

// Plan of a call by an algorithm, which is for AllGather if the delta gathers otherwise than as
// usual.
Plan build(const Algorithm& algorithm, const Shape& shape, const Delta& delta);

// Bytes of state of a rank: shadows of its own shard, or of all.
size_t shadow_bytes(Base base, int ranks, size_t shard_bytes);

// Adds elements that native extras bring to the receive buffer (plan/native_extras.h) to the base.
void shadow_what_stays_exact(Plan& plan, const Shape& shape, const Delta& delta);

}  // namespace terse::plan
