// The element itself, rounded to 16 bits. Sums are fp32, whatever the elements are.
#pragma once

#include "codec/block.h"
#include "codec/float16.h"
#include "codec/minifloat.h"

namespace terse::codec {

// Common part of both casts. Element: bfloat_t or half_t.
template <class Element_>
struct Cast {
  using Element = Element_;
  using Stats = NoStats;
  static constexpr bool kNanCodes = true;

  static TERSE_INLINE Params params(const Stats&, const Form&, float) { return {}; }
  static TERSE_INLINE bool flat(const Params&) { return false; }

  struct Quantizer {
    float inverse = 1;
  };
  static TERSE_INLINE Quantizer quantizer(const Params&, const Form&) { return {}; }

  struct Dequantizer {
    float factor;
  };
  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form&) { return {p.first}; }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form&) {
    return mul(to_float(Element{static_cast<uint16_t>(code)}), d.factor);
  }

  template <class Stochastic, Rounding rounding>
  struct Coder {
    TERSE_INLINE uint32_t operator()(float x, uint16_t random) const {
      if constexpr (rounding == Rounding::kNearest) return from_float<Element>(x).bits;
      const uint32_t special = from_float<Element>(x).bits;  // infinite or NaN
      return is_finite(x) ? Stochastic::code(x, random) : special;
    }
  };
};

constexpr Descriptor cast_descriptor(CodecId id, std::string_view name, std::string_view source) {
  return {.id = id,
          .name = name,
          .min_bits = kWideBits,
          .max_bits = kWideBits,
          .min_block = kMinBlock,
          .max_block = kMinBlock,
          .default_block = kMinBlock,
          .params = 0,
          .source = source};
}

struct Bf16 : Cast<bfloat_t> {
  static constexpr Descriptor kDescriptor = cast_descriptor(
      CodecId{4}, "bf16", "bf16 transport with fp32 sums, as NCCLX's ReduceScatter");

  // Up, away from zero, with the probability that makes the mean exactly right.
  static TERSE_INLINE uint32_t code(float x, uint16_t random) {
    return (float_bits(x) + random) >> 16;
  }

  template <Rounding rounding>
  static TERSE_INLINE Coder<Bf16, rounding> coder(const Quantizer&, const Form&) {
    return {};
  }
};

struct Fp16 : Cast<half_t> {
  static constexpr Descriptor kDescriptor =
      cast_descriptor(CodecId{5}, "fp16", "fp16 transport with fp32 sums");

  using Format = MiniFloat<5, 10, 0x7bff, true>;

  // Stochastic rounding by 13 random bits, as many as are rounded off, so that sums are exact.
  struct Up {
    uint16_t random;
    TERSE_INLINE uint32_t operator()(float m, uint32_t unit) const {
      const float share = mul(static_cast<float>(random >> 3), 0x1p-13f);
      return static_cast<uint32_t>(integer_below(add(in_units(m, unit), share)));
    }
  };

  static TERSE_INLINE uint32_t code(float x, uint16_t random) {
    constexpr uint32_t kBeyond = 0x47800000u;  // 2^16: infinite, with all above it
    const float m = magnitude(x);
    const uint32_t finite = Format::magnitude_code(m, Up{random});
    return (float_bits(m) < kBeyond ? finite : 0x7c00u) | Format::sign(x);
  }

  template <Rounding rounding>
  static TERSE_INLINE Coder<Fp16, rounding> coder(const Quantizer&, const Form&) {
    return {};
  }
};

}  // namespace terse::codec
