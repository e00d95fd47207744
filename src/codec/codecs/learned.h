// One of 2^bits levels on the block's [smallest, largest]. The levels are in no body: all ranks
// hold the same table of them (codebook.h), fitted to what they send.
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

  using Stats = Extent;
  static constexpr bool kNanCodes = false;

  // Zero point and range. Wide blocks, marked as those of min-max codes are, have the range from
  // -absmax to absmax, of which the second parameter is half.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float) {
    const float range = add(s.high, -s.low);
    const uint32_t absmax = absmax_bits(s);
    if (absmax >= kInfinityBits) return {unsound_number(form.scale), 0.0f};
    if (float_bits(range) < kTinyBits) return {absmax < kTinyBits ? 0.0f : s.low, 0.0f};
    if (absmax >= MinMax::kWideFrom)
      return {bits_float(MinMax::kWideZeroPoint), bits_float(absmax)};
    return {add(s.low, 0.0f), range};  // no -0
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.second) == 0; }

  struct Quantizer {
    float unit, zero_point, inverse;  // of the range

    // Where an element is on the block's range, from 0 to 1 but for roundings.
    TERSE_INLINE float position(float x) const {
      return mul(add(mul(x, unit), -zero_point), inverse);
    }
  };

  // Of a wide block all is halved.
  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form&) {
    const bool wide = MinMax::wide(p.first);
    return {wide ? 0.5f : 1.0f, wide ? mul(-0.5f, p.second) : p.first, div(1.0f, p.second)};
  }

  // Whether an element above a level rises to the next one.
  static TERSE_INLINE bool rises(float position, float level, float inverse, uint16_t random) {
    return add(mul(add(position, -level), inverse), uniform(random)) >= 1.0f;
  }

  struct Dequantizer {
    float unit, zero_point, range;
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form&) {
    const bool wide = MinMax::wide(p.first);
    return {wide ? 2.0f : 1.0f, wide ? mul(-0.5f, p.second) : p.first, p.second};
  }

  // Of a level, or of a vector of them.
  template <class Number>
  static TERSE_INLINE Number value(Number level, const Dequantizer& d) {
    return mul(add(mul(level, d.range), d.zero_point), d.unit);
  }
};

}  // namespace terse::codec
