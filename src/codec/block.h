// What codecs are made of (FORMAT.md, section 4): statistics of a block -> parameters -> codes ->
// values. Host loops and CUDA kernels map their work onto codecs/*.h and this, and add nothing.
//
// A codec is a type with
//   kDescriptor                 what it says of itself
//   Stats                       AbsMax, Extent or NoStats
//   params(stats, form, shift)  what is stored of the block, as numbers of form.scale. The
//                               first is not finite where an element is not
//   flat(params)                whether all codes are 0
//   Quantizer, quantizer(params, form)      once per block, by the encoder; `inverse` is not 0
//   coder<rounding>(quantizer, form)        (x, random) -> code, in the low bits. Where the shift
//                               did not move the grid (Params::moved): that of kStochastic
//   Dequantizer, dequantizer(params, form)  once per block, by the decoder
//   value(code, dequantizer, form)
//   integers(dequantizer, form), value_of(integer, dequantizer)
//                               where codes are integers: value(code) is value_of() the integer.
//                               Kernels find those of four codes at once
//   kNanCodes                   whether there are codes whose values are not finite
//   Numbers                     where codes are those of a MiniFloat: of x * quantizer.inverse, and
//                               value = number * dequantizer.scale. Some machines convert them
//
// One that chooses its parameters by a second look at the elements has besides
//   kCandidates                 how many there are to choose from
//   Probe, probe(params, form)  derived once per block: (x) -> a Small, on which candidates are
//                               tried
//   Trial, trial(candidate, form)           (probed) -> uint32_t, 0 of 0; the sum is below 2^32
//   cost(sum, candidate, form)  the least one is taken; among equals the first
//   chosen(params, candidate, form)         -> Params
// Its params() are then what it begins with. Where they are flat or not finite they stay.
//
// One whose blocks have finer scales (Descriptor::fine) has instead of its quantizer and
// dequantizer
//   Finer, finer(params, form)  derived once per block by the encoder; `scale` is not 0
//   fine(finer, absmax, form)   the byte of some elements, 0 where all their codes are
//   quantizer(finer, fine)      of one that is not 0
//   dequantizer(params, fine, form)
//
// One with a table of levels (Descriptor::codebook) has coders and dequantizers of MinMax, for
// blocks of its symmetric form; for others in place of the coder and of value
//   Quantizer::scaled(x)        an element among the levels: its code is the nearest one's, or
//                               that of the last level which is not above it, or the next one
//   rises(position, level, inverse, random)  whether it is the next one
//   value(level, dequantizer)   also of the integer that a code of the symmetric form is
//
// One of which ranks merge codes (Sharing::kMerged), of eight bits, has besides
//   merge(a, b, heads)          two codes to one; heads_in_a_row() of its random number, or 0 to
//                               nearest
#pragma once

#include "codec/descriptor.h"
#include "codec/draw.h"
#include "codec/portable.h"
#include "codec/spec.h"

namespace terse::codec {

// Magnitudes, or ranges of min-max blocks, below 2^-118 count as zero: their reciprocals, scaled by
// the largest code, would leave fp32, and their steps would be subnormal.
constexpr uint32_t kTinyBits = 0x04800000u;

// The bits of -0, which as a parameter is no number but a mark (minmax.h).
constexpr uint32_t kMarkBits = 0x80000000u;

// A codec with fewer parameters leaves the others as they are. A codec's `second` may also be of
// use to the encoder alone.
struct Params {
  float first = 1, second = 0;
  bool moved = false;  // by the shift; the encoder's alone
};

// The mean over ranks is a sum of what they have, each times `factor`, in (0, 1]: values are as
// their parameters. A mark stays one, and nothing else becomes one.
TERSE_INLINE Params scaled(const Params& p, float factor) {
  const bool marked = float_bits(p.first) == kMarkBits;
  return {marked ? p.first : add(mul(p.first, factor), 0.0f), mul(p.second, factor)};
}

// The next fp32 away from zero if `up`, or towards it if `down`. It is as good as random, so that a
// branch would be mispredicted every few blocks: hence the sum.
TERSE_INLINE float next_if(bool up, float x) {
  return bits_float(float_bits(x) + static_cast<uint32_t>(up));
}

TERSE_INLINE float last_if(bool down, float x) {
  return bits_float(float_bits(x) - static_cast<uint32_t>(down));
}

// The largest magnitude; NaN where any element is.
struct AbsMax {
  float absmax = 0;
};

TERSE_INLINE void observe(AbsMax& s, float x) { s.absmax = larger(magnitude(x), s.absmax); }
TERSE_INLINE void merge(AbsMax& s, const AbsMax& other) {
  s.absmax = larger(other.absmax, s.absmax);
}

// The smallest and the largest element; NaN where any element is.
struct Extent {
  float low = bits_float(kInfinityBits);
  float high = -bits_float(kInfinityBits);
};

TERSE_INLINE void observe(Extent& s, float x) {
  s.low = smaller(x, s.low);
  s.high = larger(x, s.high);
}
TERSE_INLINE void merge(Extent& s, const Extent& other) {
  s.low = smaller(other.low, s.low);
  s.high = larger(other.high, s.high);
}

// Extent that also notes a zero among the elements: then `zero` is 0.
struct ExtentAndZero : Extent {
  float zero = bits_float(kInfinityBits);
};

TERSE_INLINE void observe(ExtentAndZero& s, float x) {
  observe(static_cast<Extent&>(s), x);
  s.zero = smaller(magnitude(x), s.zero);
}
TERSE_INLINE void merge(ExtentAndZero& s, const ExtentAndZero& other) {
  merge(static_cast<Extent&>(s), other);
  s.zero = smaller(other.zero, s.zero);
}

// The largest magnitude, as bits: as integers, NaN > infinity > finite; and a comparison that
// nobody can predict is no branch.
TERSE_INLINE uint32_t absmax_bits(const Extent& s) {
  const uint32_t low = float_bits(magnitude(s.low)), high = float_bits(magnitude(s.high));
  return low > high ? low : high;
}

// Codecs without parameters look at no block.
struct NoStats {};

TERSE_INLINE void observe(NoStats&, float) {}

template <class Codec>
concept Chooses = requires {
  Codec::kCandidates;
};

template <class Codec>
concept SharesGrid = Codec::kDescriptor.sharing != Sharing::kNone;

template <class Codec>
concept Merges = Codec::kDescriptor.sharing == Sharing::kMerged;

template <class Codec>
concept HasCodebook = Codec::kDescriptor.codebook;

template <class Codec>
concept HasFinerScales = Codec::kDescriptor.fine != 0;

// The candidate of the least cost so far.
struct Choice {
  float cost = 0;
  int candidate = -1;
};

TERSE_INLINE void consider(Choice& best, int candidate, float cost) {
  if (best.candidate < 0 || cost < best.cost) best = {cost, candidate};
}

// A grid of `top` steps on each side of zero. The inverse of its scale is rounded up so that the
// absmax reaches the code `top` whatever is drawn; and the scale so that this code reaches the
// absmax: values are cut there.
TERSE_INLINE float inverse_scale(float absmax, float top) {
  const float inverse = div(top, absmax);
  return next_if(mul(inverse, absmax) < top, inverse);
}
TERSE_INLINE float grid_scale(float absmax, float top) {
  const float scale = div(absmax, top);
  return next_if(mul(scale, top) < absmax, scale);
}

// The integer of a code is (code ^ flip) - zero, in fp32.
struct Integers {
  uint32_t flip, zero;

  TERSE_INLINE float operator()(uint32_t code) const { return integer_less(code ^ flip, zero); }
};

template <class Codec>
concept HasIntegers = requires(const typename Codec::Dequantizer& d) {
  Codec::value_of(Codec::integers(d, Form{})(0), d);
};

// Symmetric integer codes: -q..q.
TERSE_INLINE Range symmetric_range(int bits) {
  const Small q = static_cast<Small>((1 << (bits - 1)) - 1);
  return {static_cast<Small>(-q), q};
}

// Integer codes are the low bits of these, of v = quantizer.scaled(x). Nearest, ties to even, needs
// no limits: the block's statistics bound v within the codes' range, rounding errors included, for
// even q (1 + 2^-20) rounds to q. Shift is nearest on a grid that a random shift has moved.
// Stochastic goes up with the probability that makes the mean right.
template <class Quantizer, Rounding rounding>
struct IntegerCoder {
  Quantizer quantizer;
  Range range;

  TERSE_INLINE uint32_t operator()(float x, uint16_t random) const {
    const float v = quantizer.scaled(x);
    if constexpr (rounding == Rounding::kNearest) return byte_nearest(v);
    const Small code =
        rounding == Rounding::kShift ? round_nearest(v) : round_down(add(v, uniform(random)));
    return static_cast<uint32_t>(clamp(code, range));
  }
};

// Stochastic codes of symmetric blocks, as IntegerCoder's: v is beyond -q..q by a last place, or a
// few where the inverse is subnormal and q small. As random numbers end 2^-17 before 0 and 1, that
// leads out of the codes' range for q = 127 alone, and above it. Hosts' loops limit many codes at
// once.
#ifdef __CUDACC__
constexpr bool kSavesLimits = true;
#else
constexpr bool kSavesLimits = false;
#endif
template <class Quantizer>
struct StochasticSymmetricCoder {
  Quantizer quantizer;
  int bits;

  TERSE_INLINE uint32_t operator()(float x, uint16_t random) const {
    const float units = add(quantizer.scaled(x), uniform(random));
    if (bits < kMaxBits) return byte_below(units);
    const Small code = round_down(units), most = symmetric_range(kMaxBits).high;
    return static_cast<uint32_t>(code < most ? code : most);
  }
};

}  // namespace terse::codec
