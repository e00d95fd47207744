// Integers of one grid that all ranks share, whose sum NCCL itself can form: codes 0..2 levels,
// value = (code - levels) * scale. The sum of one code of each rank is within the code's width, and
// stands for the sum of the values.
#pragma once

#include "codec/block.h"

namespace terse::codec {

template <int bits>
struct Linear {
  static_assert(bits == 8 || bits == 16);
  static constexpr Descriptor kDescriptor = {.id = CodecId{bits == 8 ? 12 : 13},
                                             .name = bits == 8 ? "linear8" : "linear16",
                                             .min_bits = bits,
                                             .max_bits = bits,
                                             .default_block = 256,
                                             .default_rounding = Rounding::kStochastic,
                                             .scales = choices(Number::kFp32, Number::kBf16),
                                             .sharing = Sharing::kSummed,
                                             .source = "Global-QSGD (arXiv 2305.18627)"};

  using Stats = AbsMax;
  // 2^-110: the inverse of less, times 2^15, would leave fp32.
  static constexpr uint32_t kFlatBits = 0x08800000u;
  static constexpr bool kNanCodes = false;

  static TERSE_INLINE uint32_t levels(const Form& form) {
    return ((1u << (bits - 1)) - 1) / static_cast<uint32_t>(form.ranks);
  }

  // The absmax, as it is stored.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float) {
    if (!is_finite(s.absmax)) return {unsound_number(form.scale)};
    return {float_bits(s.absmax) < kFlatBits ? 0.0f : rounded_up(form.scale, s.absmax)};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  struct Quantizer {
    float inverse;  // of the scale
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form& form) {
    return {inverse_scale(p.first, static_cast<float>(levels(form)))};
  }

  // Limited before they are rounded: what is stored may be less than the absmax where that would
  // have been rounded to infinity.
  template <Rounding rounding>
  struct Coder {
    float inverse, top;
    uint32_t levels;

    TERSE_INLINE uint32_t operator()(float x, uint16_t random) const {
      const float v = cut(mul(x, inverse), top);
      const float pushed = add(v, kPush);
      const uint32_t nearest = float_bits(pushed) + levels;
      if constexpr (rounding == Rounding::kNearest) return nearest;
      // Remainder, whose sum is exact; the sum of a large v would be rounded up to the next
      // integer.
      const float rest = add(v, -add(pushed, -kPush));
      return nearest + static_cast<uint32_t>(round_down(add(rest, uniform(random))));
    }
  };

  template <Rounding rounding>
  static TERSE_INLINE Coder<rounding> coder(const Quantizer& q, const Form& form) {
    return {q.inverse, static_cast<float>(levels(form)), levels(form)};
  }

  // Dequantizer of the sum of one code of each rank; exact if each has the absmax, of one sign, as
  // it is stored.
  struct Dequantizer {
    float scale, limit;
    uint32_t zero;  // the code of it
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form& form) {
    const uint32_t ranks = static_cast<uint32_t>(form.ranks), sum = ranks * levels(form);
    const float limit = mul(p.first, static_cast<float>(ranks));
    const float scale = div(p.first, static_cast<float>(levels(form)));
    return {next_if(mul(scale, static_cast<float>(sum)) < limit, scale), limit, flat(p) ? 0u : sum};
  }

  static TERSE_INLINE Integers integers(const Dequantizer& d, const Form&) { return {0, d.zero}; }

  static TERSE_INLINE float value_of(float integer, const Dequantizer& d) {
    return cut(mul(integer, d.scale), d.limit);
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form& form) {
    return value_of(integers(d, form)(code), d);
  }
};

}  // namespace terse::codec
