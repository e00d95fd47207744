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

// A range of 2^127 or more would overflow when its last code is decoded; it counts as non-finite.
constexpr uint32_t kHugeBits = 0x7f000000u;

// What a family's parameters look like on the wire. Symmetric uses the first alone.
struct Params {
  float first;   // symmetric: peak; min-max: base
  float second;  // min-max: step
};

// The next fp32 away from zero if `up`. It is as good as random, so that a branch would be
// mispredicted every few blocks: hence the sum.
TERSE_INLINE float next_if(bool up, float x) {
  return bits_float(float_bits(x) + static_cast<uint32_t>(up));
}

// Symmetric: codes -q..q, q = 2^(bits-1) - 1, of the range -peak..peak.
struct Symmetric {
  static constexpr codec::Family kWire = codec::Family::kSymmetric;

  // The largest magnitude's bits; as integers, NaN > infinity > finite.
  struct Stats {
    uint32_t peak = 0;
  };

  static TERSE_INLINE uint32_t larger(uint32_t peak, float x) {
    const uint32_t magnitude = float_bits(x) & 0x7fffffffu;
    return magnitude > peak ? magnitude : peak;
  }

  static TERSE_INLINE void observe(Stats& s, float x) { s.peak = larger(s.peak, x); }

  static TERSE_INLINE void merge(Stats& s, const Stats& other) {
    s.peak = other.peak > s.peak ? other.peak : s.peak;
  }

  static TERSE_INLINE Params params(const Stats& s, int, float) {
    if (s.peak >= kInfinityBits) return {bits_float(kNanBits), 0.0f};
    return {s.peak < kTinyBits ? 0.0f : bits_float(s.peak), 0.0f};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.first) == 0; }

  // Derived once per block by the encoder: code = round(scaled(x)), within [low, high].
  struct Quantizer {
    float scale;
    Small low, high;

    TERSE_INLINE float scaled(float x) const { return mul(x, scale); }
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, int bits) {
    const Small q = static_cast<Small>((1 << (bits - 1)) - 1);
    // Rounded up, so that the peak reaches code q whatever is drawn.
    const float top = static_cast<float>(q), inv = div(top, p.first);
    return {next_if(mul(inv, p.first) < top, inv), static_cast<Small>(-q), q};
  }

  // The step is rounded up so that q steps reach the peak, and values are cut there: the codes -q
  // and q decode to the peak exactly.
  struct Dequantizer {
    float step, peak;
    uint32_t sign;  // of a code's bits
  };

  static TERSE_INLINE Dequantizer dequantizer(const Params& p, int bits) {
    const float q = static_cast<float>((1 << (bits - 1)) - 1);
    const float step = div(p.first, q);
    return {next_if(mul(step, q) < p.first, step), p.first, 1u << (bits - 1)};
  }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d) {
    const float v = mul(integer_less(code ^ d.sign, d.sign), d.step);
    const float capped = v > d.peak ? d.peak : v;
    return capped < -d.peak ? -d.peak : capped;
  }
};

// Min-max: codes 0..2^bits-1, value = base + code * step.
struct MinMax {
  static constexpr codec::Family kWire = codec::Family::kMinMax;

  struct Stats {
    float low = bits_float(kInfinityBits);
    float high = -bits_float(kInfinityBits);
    uint32_t peak = 0;  // as in Symmetric: shows NaN and infinity
  };

  static TERSE_INLINE void observe(Stats& s, float x) {
    s.peak = Symmetric::larger(s.peak, x);
    s.low = x < s.low ? x : s.low;
    s.high = x > s.high ? x : s.high;
  }

  static TERSE_INLINE void merge(Stats& s, const Stats& other) {
    s.peak = other.peak > s.peak ? other.peak : s.peak;
    s.low = other.low < s.low ? other.low : s.low;
    s.high = other.high > s.high ? other.high : s.high;
  }

  // `shift` in (-1/2, 1/2) moves the whole grid by that part of a step (random shift); 0 otherwise.
  static TERSE_INLINE Params params(const Stats& s, int bits, float shift) {
    const float range = add(s.high, -s.low);
    if (s.peak >= kInfinityBits || float_bits(range) >= kHugeBits)
      return {bits_float(kNanBits), 0.0f};
    if (float_bits(range) < kTinyBits) return {s.peak < kTinyBits ? 0.0f : s.low, 0.0f};
    const float step = div(range, static_cast<float>((1 << bits) - 1));
    const float base = add(s.low, mul(shift, step));
    if (!is_finite(base)) return {bits_float(kNanBits), 0.0f};
    return {base, step};
  }

  static TERSE_INLINE bool flat(const Params& p) { return float_bits(p.second) == 0; }

  struct Quantizer {  // as in Symmetric
    float base, scale;
    Small low, high;

    TERSE_INLINE float scaled(float x) const { return mul(add(x, -base), scale); }
  };

  static TERSE_INLINE Quantizer quantizer(const Params& p, int bits) {
    return {p.first, div(1.0f, p.second), 0, static_cast<Small>((1 << bits) - 1)};
  }

  using Dequantizer = Params;
  static TERSE_INLINE Dequantizer dequantizer(const Params& p, int) { return p; }

  static TERSE_INLINE float value(uint32_t code, const Dequantizer& d) {
    return add(d.first, mul(integer_less(code, 0), d.second));
  }
};

// Nearest, ties to even; random shift too, whose randomness is in the base.
template <class Quantizer>
TERSE_INLINE Small code_nearest(float x, const Quantizer& q) {
  return clamp(round_nearest(q.scaled(x)), q.low, q.high);
}

// Up with the probability that makes the mean right.
template <class Quantizer>
TERSE_INLINE Small code_stochastic(float x, const Quantizer& q, uint16_t random) {
  return clamp(round_down(add(q.scaled(x), uniform(random))), q.low, q.high);
}

}  // namespace terse::codec
