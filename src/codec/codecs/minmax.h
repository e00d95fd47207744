// Integers from a block's least element to its largest: codes 0..2^bits-1, value = zero point +
// code * scale. Of wide blocks as symmetric codes, which need nothing that is larger than the
// elements: -q..q, value = code * scale.
#pragma once

#include "codec/block.h"

namespace terse::codec {

struct MinMax {
  static constexpr Descriptor kDescriptor = {
      .id = CodecId{2},
      .name = "minmax",
      .min_bits = kMinBits,
      .max_bits = kMaxBits,
      .roundings = choices(Rounding::kNearest, Rounding::kStochastic, Rounding::kShift),
      .params = 2,
      .source = "CGX, QSDP (arXiv 2302.02390)"};

  using Stats = Extent;
  static constexpr bool kNanCodes = false;

  // Blocks that reach 2^126 are wide: their range, or the end of their grid, may be beyond fp32.
  // This zero point, which others do not have, marks them.
  static constexpr uint32_t kWideFrom = 0x7e800000u, kWideZeroPoint = kMarkBits;
  static TERSE_INLINE bool wide(float zero_point) {
    return float_bits(zero_point) == kWideZeroPoint;
  }

  static TERSE_INLINE Range codes(int bits) { return {0, static_cast<Small>((1 << bits) - 1)}; }

  // Zero point and scale. `shift` in (-1/2, 1/2) moves the whole grid by that part of the scale
  // (random shift); 0 otherwise.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float shift) {
    const float range = add(s.high, -s.low);
    const uint32_t absmax = absmax_bits(s);
    if (absmax >= kInfinityBits) return {unsound_number(form.scale), 0.0f};
    if (float_bits(range) < kTinyBits) return {absmax < kTinyBits ? 0.0f : s.low, 0.0f};
    if (absmax >= kWideFrom)
      return {bits_float(kWideZeroPoint), wide_scale(bits_float(absmax), form.bits)};
    const float scale = div(range, static_cast<float>(codes(form.bits).high));
    return {add(s.low, mul(shift, scale)), scale};
  }

  // Rounded down, so that q times it is no more than the absmax.
  static TERSE_INLINE float wide_scale(float absmax, int bits) {
    const float top = static_cast<float>(symmetric_range(bits).high), scale = div(absmax, top);
    return last_if(mul(scale, top) > absmax, scale);
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.second) == 0; }

  struct Quantizer {            // as Symmetric's
    float zero_point, inverse;  // of the scale

    TERSE_INLINE float scaled(float x) const { return mul(add(x, -zero_point), inverse); }
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form&) {
    return {p.first, div(1.0f, p.second)};
  }

  template <Rounding rounding>
  static TERSE_INLINE IntegerCoder<Quantizer, rounding> coder(const Quantizer& q,
                                                              const Form& form) {
    return {q, wide(q.zero_point) ? symmetric_range(form.bits) : codes(form.bits)};
  }

  struct Dequantizer {
    float zero_point, scale;
    uint32_t sign;  // the codes' bit for it; 0: they have none
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form& form) {
    return {p.first, p.second, wide(p.first) ? 1u << (form.bits - 1) : 0u};
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form&) {
    return add(d.zero_point, mul(integer_less(code ^ d.sign, d.sign), d.scale));
  }
};

}  // namespace terse::codec
