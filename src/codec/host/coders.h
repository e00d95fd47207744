// A part of host_ops.cc: codes of elements, of registers of them where these are AVX2's (avx2.h).
#pragma once

#include "codec/codecs/fp8.h"
#include "codec/codecs/linear.h"
#include "codec/codecs/minmax.h"
#include "codec/codecs/symmetric.h"
#include "codec/host/avx2.h"
#include "codec/host/blocks.h"
#include "codec/host/elements.h"

namespace terse::codec::TERSE_ISA {
namespace {

// True if codes of such a coder are made by registers.
template <class Coder>
constexpr bool kByRegisters = false;

template <class Codec, Rounding rounding>
constexpr bool kEncodesByRegisters = requires(const typename Codec::Quantizer& q) {
  requires kByRegisters<decltype(Codec::template coder<rounding>(q, Form{}))>;
};

#ifdef TERSE_AVX2
constexpr size_t kCodesAtOnce = 4 * kFloatsAtOnce;

// uniform() of 16 bits: (2^23 + bits) / 2^16 - (2^7 - 2^-17), exactly.
TERSE_INLINE __m256 uniforms(const uint16_t* random) {
  const __m256 pushed = as_floats(_mm256_or_si256(load_words(random), words(kIntegers)));
  return _mm256_fmadd_ps(pushed, _mm256_set1_ps(0x1p-16f), _mm256_set1_ps(-0x1.fffffep+6f));
}

// The largest integers not above x.
TERSE_INLINE __m256i integers_below(__m256 x) { return _mm256_cvttps_epi32(_mm256_floor_ps(x)); }

TERSE_INLINE __m256 scaled(const Symmetric::Quantizer& q, __m256 x) {
  return _mm256_mul_ps(x, _mm256_set1_ps(q.inverse));
}
TERSE_INLINE __m256 scaled(const MinMax::Quantizer& q, __m256 x) {
  return _mm256_mul_ps(_mm256_sub_ps(x, _mm256_set1_ps(q.zero_point)), _mm256_set1_ps(q.inverse));
}

template <class Quantizer, Rounding rounding>
constexpr bool kByRegisters<IntegerCoder<Quantizer, rounding>> = requires(const Quantizer& q,
                                                                          __m256 x) {
  scaled(q, x);
};

template <class Quantizer, Rounding rounding>
TERSE_INLINE __m256i codes_of(const IntegerCoder<Quantizer, rounding>& coder, __m256 x,
                              const uint16_t* random) {
  const __m256 v = scaled(coder.quantizer, x);
  if constexpr (rounding == Rounding::kStochastic)
    return integers_below(_mm256_add_ps(v, uniforms(random)));
  return _mm256_cvtps_epi32(v);
}

// Coder of twice as many codes, in the order in which they were packed.
template <class Quantizer, Rounding rounding>
TERSE_INLINE __m256i finished(const IntegerCoder<Quantizer, rounding>& coder, __m256i codes) {
  if constexpr (rounding != Rounding::kNearest) {
    codes = _mm256_min_epi16(codes, _mm256_set1_epi16(coder.range.high));
    codes = _mm256_max_epi16(codes, _mm256_set1_epi16(coder.range.low));
  }
  return _mm256_and_si256(codes, _mm256_set1_epi16(0xff));
}

template <Rounding rounding>
constexpr bool kByRegisters<Linear<8>::Coder<rounding>> = true;

template <Rounding rounding>
TERSE_INLINE __m256i codes_of(const Linear<8>::Coder<rounding>& coder, __m256 x,
                              const uint16_t* random) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  const __m256 v = cut(_mm256_mul_ps(x, _mm256_set1_ps(coder.inverse)), coder.top);
  if constexpr (rounding == Rounding::kNearest) return _mm256_cvtps_epi32(v);
  const __m256 nearest = _mm256_round_ps(v, kNearest), rest = _mm256_sub_ps(v, nearest);
  const __m256 up = _mm256_floor_ps(_mm256_add_ps(rest, uniforms(random)));
  return _mm256_cvttps_epi32(_mm256_add_ps(nearest, up));
}

template <Rounding rounding>
TERSE_INLINE __m256i finished(const Linear<8>::Coder<rounding>& coder, __m256i codes) {
  return _mm256_add_epi16(codes, _mm256_set1_epi16(static_cast<short>(coder.levels)));
}

template <class Format, Rounding rounding>
constexpr bool kByRegisters<FloatCoder<Format, rounding>> = true;

// Encodes as MiniFloat::encode() does.
template <int exponent_bits, int mantissa_bits, uint32_t largest, bool infinity, Rounding rounding>
TERSE_INLINE __m256i
codes_of(const FloatCoder<MiniFloat<exponent_bits, mantissa_bits, largest, infinity>, rounding>& c,
         __m256 x, const uint16_t* random) {
  using Format = MiniFloat<exponent_bits, mantissa_bits, largest, infinity>;
  constexpr uint32_t kMantissa = static_cast<uint32_t>(mantissa_bits) << 23;
  const __m256i v = as_words(_mm256_mul_ps(x, _mm256_set1_ps(c.quantizer.inverse)));
  const __m256i sign = _mm256_and_si256(v, words(kSignBit));
  const __m256 m = _mm256_min_ps(as_floats(_mm256_and_si256(v, words(~kSignBit))),
                                 _mm256_set1_ps(bits_float(Format::kLargest)));
  const __m256i exponent = _mm256_and_si256(as_words(m), words(kInfinityBits));
  const __m256i least = _mm256_max_epi32(exponent, words(Format::kNormal));
  __m256i units;
  if constexpr (rounding == Rounding::kStochastic) {
    const __m256i inverse = _mm256_sub_epi32(words((254u << 23) + kMantissa), least);
    units = integers_below(_mm256_fmadd_ps(m, as_floats(inverse), uniforms(random)));
  } else {
    const __m256i push = _mm256_add_epi32(least, words((23u << 23) - kMantissa));
    units = as_words(_mm256_add_ps(m, as_floats(push)));
  }
  const __m256i left = _mm256_add_epi32(
      _mm256_slli_epi32(_mm256_sub_epi32(least, words(Format::kNormal)), 8 - exponent_bits),
      _mm256_slli_epi32(units, 32 - Format::kBits));
  return _mm256_srli_epi32(_mm256_or_si256(left, sign), 32 - Format::kBits);
}

template <class Format, Rounding rounding>
TERSE_INLINE __m256i finished(const FloatCoder<Format, rounding>&, __m256i codes) {
  return codes;
}

// Codes of kCodesAtOnce elements. `coder(i)`: coder of element i, and of all in its register.
template <class T, class Coder>
TERSE_INLINE void encode_registers(const void* in, const Coder& coder, const uint16_t* random,
                                   uint8_t* codes) {
  const char* const from = static_cast<const char*>(in);
  const auto pair = [&](size_t i) {
    const auto half = [&](size_t k) {
      return codes_of(coder(k), load_elements<T>(from + k * sizeof(T)), random + k);
    };
    return finished(coder(i), _mm256_packs_epi32(half(i), half(i + kFloatsAtOnce)));
  };
  const __m256i packed = _mm256_packus_epi16(pair(0), pair(2 * kFloatsAtOnce));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes),
                      _mm256_permutevar8x32_epi32(packed, order));
}

// Random numbers go on to a whole kCodesAtOnce.
template <class T, class Coder>
TERSE_INLINE void encode_by_registers(const void* in, size_t n, const Coder& coder,
                                      const uint16_t* random, uint8_t* codes) {
  const char* const from = static_cast<const char*>(in);
  size_t i = 0;
  for (; i + kCodesAtOnce <= n; i += kCodesAtOnce)
    encode_registers<T>(
        from + i * sizeof(T), [&](size_t k) { return coder(i + k); }, random + i, codes + i);
  if (i == n) return;
  // Last elements, padded by the first of them, for which the coder is right, too.
  T rest[kCodesAtOnce];
  uint8_t of_rest[kCodesAtOnce];
  for (size_t k = 0; k < kCodesAtOnce; ++k) rest[k] = read<T>(from, i + k < n ? i + k : i);
  encode_registers<T>(
      rest, [&](size_t k) { return coder(i + k < n ? i + k : i); }, random + i, of_rest);
  std::memcpy(codes + i, of_rest, n - i);
}
#else
template <class T, class Coder>
TERSE_INLINE void encode_by_registers(const void*, size_t, const Coder&, const uint16_t*,
                                      uint8_t*) {}
#endif

// `coder(i)`: that of element i.
template <class T, class Codec, Rounding rounding, class Coder>
TERSE_INLINE void encode(const void* in, size_t n, const Coder& coder,
                         const uint16_t* __restrict random, uint8_t* __restrict codes) {
  if constexpr (kEncodesByRegisters<Codec, rounding>)
    return encode_by_registers<T>(in, n, coder, random, codes);
  for (size_t i = 0; i < n; ++i) {
    const uint16_t r = rounding == Rounding::kStochastic ? random[i] : uint16_t{0};
    write(codes, i, static_cast<Code<Codec>>(coder(i)(to_float(read<T>(in, i)), r)));
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
