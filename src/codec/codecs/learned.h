// Learned levels: one of 2^bits levels on the block's [min, max]. No body has the levels: all ranks
// hold the same table of them (codebook.h), fitted to what they send. Blocks with a zero, and wide
// ones, have the symmetric codes of min-max ones.
#pragma once

#include "codec/block.h"
#include "codec/codecs/minmax.h"

namespace terse::codec {

struct Learned {
  static constexpr Descriptor kDescriptor = {.id = CodecId{15},
                                             .name = "learned",
                                             .min_bits = kMinBits,
                                             .max_bits = kMaxBits,
                                             .params = 2,
                                             .codebook = true,
                                             .source = "QSDP (arXiv 2302.02390), section 5.2"};

  using Stats = MinMax::Stats;
  static constexpr bool kNanCodes = false;

  // Returns true if a block has symmetric codes: a zero mostly lies on no level.
  static TERSE_INLINE bool symmetric(const Stats& s) {
    return s.zero == 0 || absmax_bits(s) >= MinMax::kWideFrom;
  }

  // Zero point and range.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float) {
    const float range = add(s.high, -s.low);
    const uint32_t absmax = absmax_bits(s);
    if (absmax >= kInfinityBits) return {unsound_number(form.scale), 0.0f};
    if (float_bits(range) < kTinyBits) return {absmax < kTinyBits ? 0.0f : s.low, 0.0f};
    if (symmetric(s)) return MinMax::symmetric_params(absmax, form.bits);
    return {s.low, range};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.second) == 0; }

  // Scales elements of a block with levels to their place on its range, from 0 to 1 but for
  // roundings.
  using Quantizer = MinMax::Quantizer;
  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form& form) {
    return MinMax::quantizer(p, form);
  }

  // Returns true if an element above a level rises to the next one.
  static TERSE_INLINE bool rises(float position, float level, float inverse, uint16_t random) {
    return add(mul(add(position, -level), inverse), uniform(random)) >= 1.0f;
  }

  struct Dequantizer {
    float zero_point, range;  // or scale
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form&) {
    return {p.first, p.second};
  }

  // Value of a code on the block's range: its level, or with symmetric codes an integer.
  template <class Table>
  static TERSE_INLINE float level(uint32_t code, const Dequantizer& d, const Form& form,
                                  const Table& levels) {
    if (!MinMax::symmetric(d.zero_point)) return levels[code];
    const uint32_t sign = 1u << (form.bits - 1);
    return integer_less(code ^ sign, sign);
  }

  // Value of a level, or of a vector of levels.
  template <class Number>
  static TERSE_INLINE Number value(Number level, const Dequantizer& d) {
    return add(mul(level, d.range), d.zero_point);
  }
};

}  // namespace terse::codec
