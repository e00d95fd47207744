// Integers about zero that are fitted to a block for the least squared error: codes -h..h-1, h =
// 2^(bits-1), value = code * scale. The scale is signed, so that the extreme, which is the element
// of the largest magnitude, lies on the side that has a code more.
#pragma once

#include "codec/block.h"

namespace terse::codec {

struct Fitted {
  static constexpr Descriptor kDescriptor = {
      .id = CodecId{3},
      .name = "int",
      .fit = Fit::kMse,
      .min_bits = kMinBits,
      .max_bits = kMaxBits,
      .roundings = choices(Rounding::kNearest),
      .scales = choices(Number::kFp32, Number::kBf16),
      .max_hadamard_bits = 4,
      .source = "least squared error, as Banner et al. (arXiv 1810.05723)"};

  using Stats = Extent;
  static constexpr bool kNanCodes = false;

  static TERSE_INLINE float half_range(int bits) { return static_cast<float>(1 << (bits - 1)); }

  // The extreme, of the sign that the scale will have.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float) {
    const uint32_t low = float_bits(magnitude(s.low)), high = float_bits(magnitude(s.high));
    const uint32_t absmax = low > high ? low : high;
    if (absmax >= kInfinityBits) return {unsound_number(form.scale), 0.0f};
    if (absmax < kTinyBits) return {0.0f, 0.0f};
    return {-(low < high ? s.high : s.low), 0.0f};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  // A candidate lets the extreme fall so many steps beyond the outermost code. What the errors
  // would be is estimated in integers, whose sum does not depend on its order.
  static constexpr int kCandidates = 5;
  static TERSE_INLINE float beyond(int candidate) {
    return mul(static_cast<float>(candidate), 0.375f);
  }
  // Ratio of a candidate's scale to the one that leaves nothing beyond.
  static TERSE_INLINE float ratio(int candidate, const Form& form) {
    const float half = half_range(form.bits);
    return div(half, add(half, beyond(candidate)));
  }

  // Elements in 32nds of a step, of the scale that leaves nothing beyond.
  struct Probe {
    float scale;

    TERSE_INLINE Small operator()(float x) const {
      constexpr float kPush32nds = kPush / 32;
      return static_cast<Small>(float_bits(add(mul(x, scale), kPush32nds)) -
                                float_bits(kPush32nds));
    }
  };
  static TERSE_INLINE Probe probe(const Params& p, const Form& form) {
    return {div(half_range(form.bits), p.first)};
  }

  // The squared error in 32nds of a candidate's step, at most 81^2.
  struct Trial {
    Small longer;  // how much longer an element is in steps of the candidate, as a part of 2^15
    Range range;

    TERSE_INLINE uint32_t operator()(Small probed) const {
      const int32_t more = ((static_cast<int32_t>(probed) * longer >> 14) + 1) >> 1;
      const Small v = static_cast<Small>(probed + static_cast<Small>(more));
      const Small code = clamp(static_cast<Small>((v + 16) & ~31), range);
      const int32_t error = static_cast<Small>(v - code);
      return static_cast<uint32_t>(error * error);
    }
  };
  static TERSE_INLINE Trial trial(int candidate, const Form& form) {
    const int half = 1 << (form.bits - 1);
    return {static_cast<Small>(candidate * (3 << 12) / half),
            {static_cast<Small>(-32 * half), static_cast<Small>(32 * (half - 1))}};
  }

  // The sum of squares in units that all candidates share.
  static TERSE_INLINE float cost(uint32_t sum, int candidate, const Form& form) {
    const float part = ratio(candidate, form);
    return mul(mul(static_cast<float>(sum), part), part);
  }

  // The scale. What is rounded up is what the outermost code stands for, which so stays finite.
  static TERSE_INLINE Params chosen(const Params& p, int candidate, const Form& form) {
    const float reach = mul(magnitude(p.first), ratio(candidate, form));
    const float scale = mul(rounded_up(form.scale, reach), div(1.0f, half_range(form.bits)));
    return {bits_float(float_bits(scale) | (float_bits(p.first) & kSignBit)), 0.0f};
  }

  // The codes are limited, for the candidates leave elements beyond.
  struct Quantizer {
    float inverse;  // of the scale
  };
  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form&) {
    return {div(1.0f, p.first)};
  }

  struct Coder {
    float inverse;
    Range range;

    TERSE_INLINE uint32_t operator()(float x, uint16_t) const {
      return static_cast<uint32_t>(clamp(round_nearest(mul(x, inverse)), range));
    }
  };
  template <Rounding rounding>
  static TERSE_INLINE Coder coder(const Quantizer& q, const Form& form) {
    const Small half = static_cast<Small>(1 << (form.bits - 1));
    return {q.inverse, {static_cast<Small>(-half), static_cast<Small>(half - 1)}};
  }

  // The sign goes to the difference that a code is, so that zeros are +0.
  struct Dequantizer {
    uint32_t flip;
    float less, scale;
  };
  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form& form) {
    const uint32_t sign = float_bits(p.first) & kSignBit, half = 1u << (form.bits - 1);
    return {kIntegers ^ half ^ sign, -bits_float((kIntegers ^ half) | sign), magnitude(p.first)};
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form&) {
    return mul(add(bits_float(code ^ d.flip), d.less), d.scale);
  }
};

}  // namespace terse::codec
