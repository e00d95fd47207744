// FP8 with a scale per block: the largest magnitude becomes the format's largest number.
#pragma once

#include "codec/block.h"
#include "codec/minifloat.h"

namespace terse::codec {

// Below 2^-110 scales would be subnormal.
constexpr uint32_t kTinyScaledBits = 0x08800000u;

// Codes are those of `Format`, of x * inverse; they saturate.
struct FloatQuantizer {
  float inverse;  // of the scale
};

template <class Format, Rounding rounding>
struct FloatCoder {
  FloatQuantizer quantizer;

  TERSE_INLINE uint32_t operator()(float x, uint16_t random) const {
    const float v = mul(x, quantizer.inverse);
    if constexpr (rounding == Rounding::kNearest) return Format::encode(v, ToNearest{});
    return Format::encode(v, ToEither{random});
  }
};

// value = the code's number * scale.
template <class Format>
struct ScaledFloat {
  using Stats = AbsMax;
  using Numbers = Format;
  using Quantizer = FloatQuantizer;
  static constexpr bool kNanCodes = Format::kHasNan;

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  template <Rounding rounding>
  static TERSE_INLINE FloatCoder<Format, rounding> coder(const Quantizer& q, const Form&) {
    return {q};
  }

  struct Dequantizer {
    float scale;
  };
  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form&) { return {p.first}; }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form&) {
    return mul(Format::decode(code), d.scale);
  }
};

template <class Format>
struct Fp8 : ScaledFloat<Format> {
  using typename ScaledFloat<Format>::Quantizer;

  // Rounded down, so that the largest number times the scale is no more than the absmax.
  static TERSE_INLINE Params params(const AbsMax& s, const Form& form, float) {
    if (!is_finite(s.absmax)) return {unsound_number(form.scale), 0.0f};
    if (float_bits(s.absmax) < kTinyScaledBits) return {0.0f, 0.0f};
    const float largest = bits_float(Format::kLargest), scale = div(s.absmax, largest);
    return {last_if(mul(scale, largest) > s.absmax, scale), 0.0f};
  }

  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form&) {
    return {div(1.0f, p.first)};
  }
};

constexpr Descriptor fp8_descriptor(CodecId id, std::string_view name) {
  return {.id = id, .name = name, .min_bits = 8, .max_bits = 8, .source = "OCP FP8"};
}

struct Fp8E4M3 : Fp8<E4M3> {
  static constexpr Descriptor kDescriptor = fp8_descriptor(CodecId{6}, "fp8e4m3");
};

struct Fp8E5M2 : Fp8<E5M2> {
  static constexpr Descriptor kDescriptor = fp8_descriptor(CodecId{7}, "fp8e5m2");
};

}  // namespace terse::codec
