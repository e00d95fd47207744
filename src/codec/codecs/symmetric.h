// Integers about zero: codes -q..q, q = 2^(bits-1) - 1, of the range -absmax..absmax.
#pragma once

#include "codec/block.h"

namespace terse::codec {

struct Symmetric {
  static constexpr Descriptor kDescriptor = {.id = CodecId{1},
                                             .name = "int",
                                             .min_bits = kMinBits,
                                             .max_bits = kMaxBits,
                                             .scales = choices(Number::kFp32, Number::kBf16),
                                             .max_hadamard_bits = 4,
                                             .source = "absmax integers, as ZeRO++ and CGX"};

  using Stats = AbsMax;
  static constexpr bool kNanCodes = false;

  // The absmax, as it is stored and as it is.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float) {
    if (!is_finite(s.absmax)) return {unsound_number(form.scale), 0.0f};
    if (float_bits(s.absmax) < kTinyBits) return {0.0f, 0.0f};
    return {rounded_up(form.scale, s.absmax), s.absmax};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  // code = round(scaled(x)), within the range of codes.
  struct Quantizer {
    float inverse;  // of the scale

    TERSE_INLINE float scaled(float x) const { return mul(x, inverse); }
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form& form) {
    // Larger of both: the stored one is smaller if it would have been rounded to infinity.
    const float absmax = form.scale == Number::kFp32 ? p.first : larger(p.first, p.second);
    return {inverse_scale(absmax, static_cast<float>(symmetric_range(form.bits).high))};
  }

  template <Rounding rounding>
  static TERSE_INLINE auto coder(const Quantizer& q, const Form& form) {
    if constexpr (rounding == Rounding::kStochastic && kSavesLimits)
      return StochasticSymmetricCoder<Quantizer>{q, form.bits};
    else
      return IntegerCoder<Quantizer, rounding>{q, symmetric_range(form.bits)};
  }

  // The codes -q and q decode to the absmax exactly.
  struct Dequantizer {
    float scale, absmax;
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form& form) {
    return {grid_scale(p.first, static_cast<float>(symmetric_range(form.bits).high)), p.first};
  }

  static TERSE_INLINE Integers integers(const Dequantizer&, const Form& form) {
    const uint32_t sign = 1u << (form.bits - 1);
    return {sign, sign};
  }

  static TERSE_INLINE float value_of(float integer, const Dequantizer& d) {
    return cut(mul(integer, d.scale), d.absmax);
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form& form) {
    return value_of(integers(d, form)(code), d);
  }
};

}  // namespace terse::codec
