// Integers from the end of a block that is nearer to zero, or from its least element: codes
// 0..2^bits-1, value = zero point + code * scale. Of wide blocks, and of those with a zero among
// elements of both signs, symmetric codes: -q..q, value = code * scale. So zeros stay zeros.
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

  using Stats = ExtentAndZero;
  static constexpr bool kNanCodes = false;

  // Blocks that reach 2^126 are wide: their range, or the end of their grid, may be beyond fp32.
  static constexpr uint32_t kWideFrom = 0x7e800000u;

  // Returns true if a block has symmetric codes, marked by a zero point that no other block has.
  static TERSE_INLINE bool symmetric(float zero_point) {
    return float_bits(zero_point) == kMarkBits;
  }

  static TERSE_INLINE Range codes(int bits) { return {0, static_cast<Small>((1 << bits) - 1)}; }

  // Zero point and scale. `shift` in (-1/2, 1/2) moves the grid of a block of both signs by that
  // part of the scale (random shift); 0 otherwise. Grids that stay begin at an end: no value is
  // nearer to zero, or has the other sign.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float shift) {
    const float range = add(s.high, -s.low);
    const uint32_t absmax = absmax_bits(s);
    if (absmax >= kInfinityBits) return {unsound_number(form.scale), 0.0f};
    if (float_bits(range) < kTinyBits) return {absmax < kTinyBits ? 0.0f : s.low, 0.0f};
    const bool positive = s.high > 0, both = positive && s.low < 0;
    if (absmax >= kWideFrom || (both && s.zero == 0)) return symmetric_params(absmax, form.bits);
    const float scale = div(range, static_cast<float>(codes(form.bits).high));
    if (both) return {add(s.low, mul(shift, scale)), scale, true};
    return {add(positive ? s.low : s.high, 0.0f), positive ? scale : -scale};  // no -0
  }

  // The scale is rounded down, so that q times it is no more than the absmax.
  static TERSE_INLINE Params symmetric_params(uint32_t absmax_bits, int bits) {
    const float top = static_cast<float>(symmetric_range(bits).high);
    const float absmax = bits_float(absmax_bits), scale = div(absmax, top);
    return {bits_float(kMarkBits), last_if(mul(scale, top) > absmax, scale)};
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
    return {q, symmetric(q.zero_point) ? symmetric_range(form.bits) : codes(form.bits)};
  }

  struct Dequantizer {
    float zero_point, scale;
    uint32_t sign;  // the codes' bit for it; 0: they have none
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form& form) {
    return {p.first, p.second, symmetric(p.first) ? 1u << (form.bits - 1) : 0u};
  }

  static TERSE_INLINE Integers integers(const Dequantizer& d, const Form&) {
    return {d.sign, d.sign};
  }

  static TERSE_INLINE float value_of(float integer, const Dequantizer& d) {
    return add(d.zero_point, mul(integer, d.scale));
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form& form) {
    return value_of(integers(d, form)(code), d);
  }
};

}  // namespace terse::codec
