// OCP MX v1.0: 32 small floats share a power of two.
#pragma once

#include "codec/codecs/fp8.h"

namespace terse::codec {

template <class Format>
struct Mx : ScaledFloat<Format> {
  using typename ScaledFloat<Format>::Quantizer;

  // The absmax's power of two becomes the format's largest one (MX v1.0, section 6.3), and what is
  // above the largest number saturates. That would be biased: stochastic rounding takes the next
  // power of two instead, unless that could lead beyond fp32.
  static TERSE_INLINE Params params(const AbsMax& s, const Form& form, float) {
    constexpr uint32_t kMantissa = 0x007fffffu, kLastBinade = 0x7f000000u;
    if (!is_finite(s.absmax)) return {unsound_number(form.scale), 0.0f};
    const uint32_t bits = float_bits(s.absmax);
    if (bits < kTinyScaledBits) return {0.0f, 0.0f};
    const bool saturates =
        (bits & kMantissa) > (Format::kLargest & kMantissa) && bits < kLastBinade;
    const uint32_t up = saturates && form.rounding == Rounding::kStochastic ? 1 : 0;
    return {bits_float(((bits >> 23) - Format::kLargestExponent + up) << 23), 0.0f};
  }

  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form&) {
    return {bits_float((254u << 23) - float_bits(p.first))};
  }
};

constexpr Descriptor mx_descriptor(CodecId id, std::string_view name, int bits) {
  return {.id = id,
          .name = name,
          .min_bits = bits,
          .max_bits = bits,
          .min_block = 32,
          .max_block = 32,
          .default_block = 32,
          .scales = choices(Number::kE8M0),
          .default_scale = Number::kE8M0,
          .max_hadamard_bits = bits <= 4 ? bits : 0,
          .source = "OCP MX v1.0"};
}

struct MxFp8 : Mx<E4M3> {
  static constexpr Descriptor kDescriptor = mx_descriptor(CodecId{8}, "mxfp8", 8);
};

struct MxFp6 : Mx<E2M3> {
  static constexpr Descriptor kDescriptor = mx_descriptor(CodecId{9}, "mxfp6", 6);
};

struct MxFp4 : Mx<E2M1> {
  static constexpr Descriptor kDescriptor = mx_descriptor(CodecId{10}, "mxfp4", 4);
};

}  // namespace terse::codec
