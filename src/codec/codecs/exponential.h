// Powers of two of one grid that all ranks share: a code is a sign and an exponent, and stands for
// 2^-exponent times what the sum of all ranks may reach. Two codes are merged into one by integers
// alone; so are those of all ranks, two at a time, and each merge is right on average.
#pragma once

#include "codec/block.h"

namespace terse::codec {

struct Exponential {
  static constexpr Descriptor kDescriptor = {.id = CodecId{14},
                                             .name = "exp8",
                                             .min_bits = 8,
                                             .max_bits = 8,
                                             .default_block = 256,
                                             .default_rounding = Rounding::kStochastic,
                                             .scales = choices(Number::kFp32, Number::kBf16),
                                             .sharing = Sharing::kMerged,
                                             .source = "Global-QSGD (arXiv 2305.18627)"};

  using Stats = AbsMax;
  static constexpr bool kNanCodes = false;
  static constexpr uint32_t kSign = 0x80, kExponent = 0x7f;
  static constexpr uint32_t kBias = 127, kMantissaBits = 23;  // of fp32

  // The absmax, as it is stored.
  static TERSE_INLINE Params params(const Stats& s, const Form& form, float) {
    if (!is_finite(s.absmax)) return {unsound_number(form.scale)};
    return {float_bits(s.absmax) < kTinyBits ? 0.0f : rounded_up(form.scale, s.absmax)};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  // The exponent in the code of the absmax: each level of a balanced tree may take one away, and
  // one is left. floor(log2(2n - 1)) is log2(n) rounded up.
  static TERSE_INLINE uint32_t headroom(const Form& form) {
    const float odd = integer_less(2 * static_cast<uint32_t>(form.ranks) - 1, 0);
    return 1 + (float_bits(odd) >> kMantissaBits) - kBias;
  }

  struct Quantizer {
    float inverse;  // of the absmax
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, const Form&) {
    return {div(1.0f, p.first)};
  }

  // Number to add to the bits of a float, so that it carries into the exponent with the probability
  // that the mantissa says; to nearest, from 1.5 times a power on.
  template <Rounding rounding>
  struct Coder {
    float inverse;
    uint32_t top;  // fp32's exponent of what one of 0 in a code would stand for

    TERSE_INLINE uint32_t operator()(float x, uint16_t random) const {
      const uint32_t added =
          rounding == Rounding::kNearest ? 0x00400000u : uint32_t{random} << 7 | 0x40u;
      const uint32_t bits = float_bits(magnitude(cut(mul(x, inverse), 1.0f)));
      const uint32_t exponent = top - ((bits + added) >> kMantissaBits);
      return exponent <= kExponent ? exponent | (float_bits(x) >> 24 & kSign) : 0;
    }
  };

  template <Rounding rounding>
  static TERSE_INLINE Coder<rounding> coder(const Quantizer& q, const Form& form) {
    return {q.inverse, headroom(form) + kBias};
  }

  // Dequantizer whose values are finite, as bf16 too, if the sum of the largest elements is. The
  // largest element of one rank alone may be beyond bf16.
  struct Dequantizer {
    float absmax, limit;
    uint32_t top;
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, const Form& form) {
    const bool finite = is_finite(mul(p.first, static_cast<float>(form.ranks)));
    const float limit = larger(p.first, bits_float(kLargestBf16Bits));
    return {p.first, finite ? limit : bits_float(kInfinityBits), headroom(form) + kBias};
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, const Form&) {
    const uint32_t exponent = code & kExponent;
    const uint32_t power = exponent == 0 ? 0 : (d.top - exponent) << kMantissaBits;
    return cut(mul(d.absmax, bits_float(power | (code & kSign) << 24)), d.limit);
  }

  // Zeros count as the smallest of all. Of opposite signs what is lost is at most half of the
  // larger one, and so it takes one more of the heads. There is nothing before the exponent 1, but
  // a sum has the headroom. Numbers in place of conditions: compilers vectorise these.
  static TERSE_INLINE Tiny merge(Tiny a, Tiny b, Tiny heads) {
    const Tiny first = tiny((a - 1u) & kExponent), second = tiny((b - 1u) & kExponent);
    const Tiny larger = first < second ? first : second, smaller = first < second ? second : first;
    const Tiny apart = tiny(smaller - larger), opposite = tiny((a ^ b) >> 7);
    const Tiny sign = tiny((first <= second ? a : b) & kSign);
    const Tiny luck = tiny(heads + opposite), fails = luck < apart ? 1 : 0;
    const Tiny alone = smaller == kExponent ? 1 : 0, full = larger == 0 ? 1 : 0;
    const Tiny moves = tiny(~(fails | alone) & 1u), equal = apart == 0 ? 1 : 0;
    const Tiny down = moves & opposite, up = tiny(moves & ~(opposite | full));
    const Tiny code = tiny(((larger + 1u + down - up) & kExponent) | sign);
    const Tiny cancels = opposite & equal;
    return tiny(code & (cancels - 1u));
  }

 private:
  static TERSE_INLINE Tiny tiny(uint32_t x) { return static_cast<Tiny>(x); }
};

}  // namespace terse::codec
