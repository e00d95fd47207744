// NVIDIA's NVFP4: 16 small floats share an E4M3 scale, which is in units of an fp32 one. That is
// not of a whole tensor but of 4096 elements, so that nothing depends on how messages are cut.
#pragma once

#include "codec/codecs/fp8.h"

namespace terse::codec {

struct NvFp4 {
  static constexpr Descriptor kDescriptor = {.id = CodecId{11},
                                             .name = "nvfp4",
                                             .min_bits = 4,
                                             .max_bits = 4,
                                             .min_block = 4096,
                                             .max_block = 4096,
                                             .default_block = 4096,
                                             .fine = 16,
                                             .source = "NVIDIA NVFP4"};

  using Stats = AbsMax;
  using Numbers = E2M1;
  static constexpr bool kNanCodes = true;  // where the scale is

  // Below 2^-100 the elements' scales would be subnormal.
  static constexpr uint32_t kTinyFineBits = 0x0d800000u;
  static constexpr float kLargestElement = 6, kLargestScale = 448;

  // Rounded down, so that the largest numbers times the scale are no more than the absmax.
  static TERSE_INLINE Params params(const AbsMax& s, const Form& form, float) {
    constexpr float kLargest = kLargestElement * kLargestScale;
    if (!is_finite(s.absmax)) return {unsound_number(form.scale), 0.0f};
    if (float_bits(s.absmax) < kTinyFineBits) return {0.0f, 0.0f};
    const float scale = div(s.absmax, kLargest);
    return {last_if(mul(scale, kLargest) > s.absmax, scale), 0.0f};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  struct Finer {
    float scale, inverse;  // of an absmax, in units of the block's scale and of the largest element
  };
  static TERSE_INLINE Finer finer(const Params& p, const Form&) {
    return {p.first, div(1.0f, mul(p.first, kLargestElement))};
  }

  struct Above {
    TERSE_INLINE uint32_t operator()(float m, uint32_t unit) const {
      return static_cast<uint32_t>(-integer_below(-in_units(m, unit)));
    }
  };

  // Scale of some elements, rounded to nearest, so that elements may saturate. That would be
  // biased: stochastic rounding takes the next scale.
  static TERSE_INLINE uint32_t fine(const Finer& f, float absmax, const Form& form) {
    const float scale = mul(absmax, f.inverse);
    return form.rounding == Rounding::kStochastic ? E4M3::encode(scale, Above{})
                                                  : E4M3::encode(scale, ToNearest{});
  }

  using Quantizer = FloatQuantizer;
  static TERSE_INLINE Quantizer quantizer(const Finer& f, uint32_t fine) {
    return {div(1.0f, mul(E4M3::decode(fine), f.scale))};
  }

  template <Rounding rounding>
  static TERSE_INLINE FloatCoder<Numbers, rounding> coder(const Quantizer& q, const Form&) {
    return {q};
  }

  struct Dequantizer {
    float scale;
  };
  static TERSE_INLINE Dequantizer dequantizer(const Params& p, uint32_t fine, const Form&) {
    return {mul(E4M3::decode(fine), p.first)};
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form&) {
    return mul(Numbers::decode(code), d.scale);
  }
};

}  // namespace terse::codec
