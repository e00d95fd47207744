// The mathematics of one block, element by element: statistics -> parameters -> codes -> values
// (FORMAT.md, section 4). Host loops and CUDA kernels map their work onto these functions and add
// nothing to them.
#pragma once

#include "codec/draw.h"
#include "codec/portable.h"
#include "codec/spec.h"

namespace terse::codec {

// Magnitudes (symmetric) or ranges (min-max) below 2^-118 count as zero: their reciprocals, scaled
// by the largest code, would leave fp32, and their steps would be subnormal.
constexpr uint32_t kTinyBits = 0x04800000u;

// Min-max blocks that reach 2^126 are wide: their range, or the end of their grid, may be beyond
// fp32. This base, which others do not have, marks them.
constexpr uint32_t kWideFrom = 0x7e800000u, kWideBase = 0x80000000u;

// What a family's parameters look like on the wire. Symmetric uses the first alone.
struct Params {
  float first;   // symmetric: peak; min-max: base, or kWideBase
  float second;  // min-max: step
};

// The next fp32 away from zero if `up`, or towards it if `down`. It is as good as random, so that a
// branch would be mispredicted every few blocks: hence the sum.
TERSE_INLINE float next_if(bool up, float x) {
  return bits_float(float_bits(x) + static_cast<uint32_t>(up));
}

TERSE_INLINE float last_if(bool down, float x) {
  return bits_float(float_bits(x) - static_cast<uint32_t>(down));
}

// The mean over ranks is a sum of what they have, each times `factor`, in (0, 1]: values are as
// their parameters.
TERSE_INLINE Params scaled(const Params& p, float factor) {
  return {mul(p.first, factor), mul(p.second, factor)};
}

// Symmetric: codes -q..q, q = 2^(bits-1) - 1, of the range -peak..peak.
struct Symmetric {
  static constexpr codec::Family kWire = codec::Family::kSymmetric;

  // The largest magnitude; NaN where any element is.
  struct Stats {
    float peak = 0;
  };

  static TERSE_INLINE void observe(Stats& s, float x) { s.peak = larger(magnitude(x), s.peak); }

  static TERSE_INLINE void merge(Stats& s, const Stats& other) {
    s.peak = larger(other.peak, s.peak);
  }

  static TERSE_INLINE Params params(const Stats& s, int, float) {
    if (!is_finite(s.peak)) return {bits_float(kNanBits), 0.0f};
    return {float_bits(s.peak) < kTinyBits ? 0.0f : s.peak, 0.0f};
  }

  static TERSE_INLINE Range range(int bits) {
    const Small q = static_cast<Small>((1 << (bits - 1)) - 1);
    return {static_cast<Small>(-q), q};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  // Derived once per block by the encoder: code = round(scaled(x)), within the range of codes. The
  // scale is positive.
  struct Quantizer {
    float scale;

    TERSE_INLINE float scaled(float x) const { return mul(x, scale); }
    TERSE_INLINE Range range(int bits) const { return Symmetric::range(bits); }
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, int bits) {
    // Rounded up, so that the peak reaches code q whatever is drawn.
    const float top = static_cast<float>(range(bits).high), inv = div(top, p.first);
    return {next_if(mul(inv, p.first) < top, inv)};
  }

  // The step is rounded up so that q steps reach the peak, and values are cut there: the codes -q
  // and q decode to the peak exactly.
  struct Dequantizer {
    float step, peak;
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, int bits) {
    const float top = static_cast<float>(range(bits).high), step = div(p.first, top);
    return {next_if(mul(step, top) < p.first, step), p.first};
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, int bits) {
    const uint32_t sign = 1u << (bits - 1);
    return cut(mul(integer_less(code ^ sign, sign), d.step), d.peak);
  }
};

// Min-max: codes 0..2^bits-1, value = base + code * step. Of wide blocks as Symmetric's codes,
// which need nothing that is larger than the elements: -q..q, value = code * step.
struct MinMax {
  static constexpr codec::Family kWire = codec::Family::kMinMax;

  // NaN where any element is.
  struct Stats {
    float low = bits_float(kInfinityBits);
    float high = -bits_float(kInfinityBits);
  };

  static TERSE_INLINE void observe(Stats& s, float x) {
    s.low = smaller(x, s.low);
    s.high = larger(x, s.high);
  }

  static TERSE_INLINE void merge(Stats& s, const Stats& other) {
    s.low = smaller(other.low, s.low);
    s.high = larger(other.high, s.high);
  }

  // `shift` in (-1/2, 1/2) moves the whole grid by that part of a step (random shift); 0 otherwise.
  static TERSE_INLINE Params params(const Stats& s, int bits, float shift) {
    const float spread = add(s.high, -s.low);
    // As integers, NaN > infinity > finite; and a comparison that nobody can predict is no branch.
    const uint32_t low = float_bits(magnitude(s.low)), high = float_bits(magnitude(s.high));
    const uint32_t peak = low > high ? low : high;
    if (peak >= kInfinityBits) return {bits_float(kNanBits), 0.0f};
    if (float_bits(spread) < kTinyBits) return {peak < kTinyBits ? 0.0f : s.low, 0.0f};
    if (peak >= kWideFrom) return {bits_float(kWideBase), wide_step(bits_float(peak), bits)};
    const float step = div(spread, static_cast<float>(range(bits).high));
    return {add(s.low, mul(shift, step)), step};
  }

  // Rounded down, so that q steps are no more than the peak.
  static TERSE_INLINE float wide_step(float peak, int bits) {
    const float top = static_cast<float>(Symmetric::range(bits).high), step = div(peak, top);
    return last_if(mul(step, top) > peak, step);
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.second) == 0; }
  static TERSE_INLINE bool wide(float base) { return float_bits(base) == kWideBase; }

  static TERSE_INLINE Range range(int bits) { return {0, static_cast<Small>((1 << bits) - 1)}; }

  struct Quantizer {  // as in Symmetric
    float base, scale;

    TERSE_INLINE float scaled(float x) const { return mul(add(x, -base), scale); }
    TERSE_INLINE Range range(int bits) const {
      return wide(base) ? Symmetric::range(bits) : MinMax::range(bits);
    }
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, int) {
    return {p.first, div(1.0f, p.second)};
  }

  struct Dequantizer {
    float base, step;
    uint32_t sign;  // the codes' bit for it; 0: they have none
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, int bits) {
    return {p.first, p.second, wide(p.first) ? 1u << (bits - 1) : 0u};
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d, int) {
    return add(d.base, mul(integer_less(code ^ d.sign, d.sign), d.step));
  }
};

// Codes are the low bytes of these. Nearest, ties to even, of what the block's statistics saw:
// those bound it within the codes' range, rounding errors included, for even q (1 + 2^-20) rounds
// to q.
template <class Quantizer>
TERSE_INLINE uint32_t code_nearest(float x, const Quantizer& q) {
  return byte_nearest(q.scaled(x));
}

// Nearest on a grid that a random shift has moved.
template <class Quantizer>
TERSE_INLINE uint32_t code_shifted(float x, const Quantizer& q, const Range& range) {
  return static_cast<uint32_t>(clamp(round_nearest(q.scaled(x)), range));
}

// Up with the probability that makes the mean right.
template <class Quantizer>
TERSE_INLINE uint32_t code_stochastic(float x, const Quantizer& q, const Range& range,
                                      uint16_t random) {
  return static_cast<uint32_t>(clamp(round_down(add(q.scaled(x), uniform(random))), range));
}

}  // namespace terse::codec
