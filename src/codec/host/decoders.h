// A part of host_ops.cc: values of registers of codes (avx2.h).
#pragma once

#include <type_traits>

#include "codec/codecs/linear.h"
#include "codec/codecs/minmax.h"
#include "codec/codecs/symmetric.h"
#include "codec/host/avx2.h"
#include "codec/minifloat.h"

namespace terse::codec::TERSE_ISA {
namespace {

// True if codes of a codec become elements of a type by registers.
template <class T, class Codec>
constexpr bool kDecodesByRegisters = false;

#ifdef TERSE_AVX2
constexpr size_t kValuesAtOnce = 2 * kFloatsAtOnce;

// Integers as integer_less(codes ^ flip, less).
TERSE_INLINE __m256 integers(__m256i codes, uint32_t flip, uint32_t less) {
  const __m256i pushed = _mm256_xor_si256(codes, words(kIntegers ^ flip));
  return _mm256_sub_ps(as_floats(pushed), _mm256_set1_ps(bits_float(kIntegers ^ less)));
}

TERSE_INLINE __m256 value(__m256i codes, const Symmetric::Dequantizer& d, const Form& form) {
  const uint32_t sign = 1u << (form.bits - 1);
  return cut(_mm256_mul_ps(integers(codes, sign, sign), _mm256_set1_ps(d.scale)), d.absmax);
}

TERSE_INLINE __m256 value(__m256i codes, const Linear<8>::Dequantizer& d, const Form&) {
  return cut(_mm256_mul_ps(integers(codes, 0, d.zero), _mm256_set1_ps(d.scale)), d.limit);
}

TERSE_INLINE __m256 value(__m256i codes, const MinMax::Dequantizer& d, const Form&) {
  const __m256 above = _mm256_mul_ps(integers(codes, d.sign, d.sign), _mm256_set1_ps(d.scale));
  return _mm256_add_ps(_mm256_set1_ps(d.zero_point), above);
}

template <class Codec>
concept HasIntegerRegisters = requires(const typename Codec::Dequantizer& d) {
  value(__m256i{}, d, Form{});
};

template <class Codec>
concept HasNumbers = requires {
  requires Codec::Numbers::kBits <= 8;
};

template <class T, class Codec>
requires(!std::is_same_v<T, half_t> &&
         (HasIntegerRegisters<Codec> ||
          HasNumbers<Codec>)) constexpr bool kDecodesByRegisters<T, Codec> = true;

TERSE_INLINE __m256i shorts(uint32_t x) { return _mm256_set1_epi16(static_cast<short>(x)); }

// Small floats as fp16, of which all of them are a part. Its exponents have a larger bias, so these
// are the numbers by kFactor.
template <int exponent_bits, int mantissa_bits, uint32_t largest, bool infinity>
struct AsHalves {
  using Format = MiniFloat<exponent_bits, mantissa_bits, largest, infinity>;
  static constexpr float kFactor = static_cast<float>(1 << (15 - Format::kBias));

  static TERSE_INLINE __m256i of(const uint8_t* codes) {
    constexpr int kUp = 10 - mantissa_bits;
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m256i code = _mm256_cvtepu8_epi16(bytes);
    const __m256i magnitude = _mm256_and_si256(code, shorts((1u << (Format::kBits - 1)) - 1));
    const __m256i up = _mm256_slli_epi16(code, 16 - Format::kBits);
    __m256i halves =
        _mm256_or_si256(_mm256_slli_epi16(magnitude, kUp), _mm256_and_si256(up, shorts(0x8000)));
    if constexpr (Format::kHasNan && !infinity)
      halves = _mm256_or_si256(halves, _mm256_cmpgt_epi16(magnitude, shorts(largest)));
    return halves;
  }
};

template <int exponent_bits, int mantissa_bits, uint32_t largest, bool infinity>
AsHalves<exponent_bits, mantissa_bits, largest, infinity> as_halves(
    MiniFloat<exponent_bits, mantissa_bits, largest, infinity>);

template <class Codec>
TERSE_INLINE __m256 value(__m128i halves, const typename Codec::Dequantizer& d) {
  constexpr float kFactor = decltype(as_halves(typename Codec::Numbers{}))::kFactor;
  const __m256 number = _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(kFactor));  // exact
  return _mm256_mul_ps(number, _mm256_set1_ps(d.scale));
}

// `first`: of the first half of the codes, and so on.
template <class Codec>
TERSE_INLINE void values(const uint8_t* codes, const Form& form,
                         const typename Codec::Dequantizer& first,
                         const typename Codec::Dequantizer& second, __m256& low, __m256& high) {
  if constexpr (HasIntegerRegisters<Codec>) {
    const auto load = [](const uint8_t* from) {
      return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    };
    low = value(load(codes), first, form);
    high = value(load(codes + kFloatsAtOnce), second, form);
  } else {
    const __m256i halves = decltype(as_halves(typename Codec::Numbers{}))::of(codes);
    low = value<Codec>(_mm256_castsi256_si128(halves), first);
    high = value<Codec>(_mm256_extracti128_si256(halves, 1), second);
  }
}

// Decodes kValuesAtOnce codes. `dequantizer(i)`: dequantizer of element i, and of all in its
// register.
template <class T, class Codec, bool accumulate, bool nans, class Dequantizer>
TERSE_INLINE void decode_registers(const uint8_t* codes, const Form& form,
                                   const Dequantizer& dequantizer, void* out) {
  __m256 low, high;
  values<Codec>(codes, form, dequantizer(0), dequantizer(kFloatsAtOnce), low, high);
  if constexpr (accumulate) {
    const char* const sums = static_cast<const char*>(out);
    low = _mm256_add_ps(load_elements<T>(sums), low);
    high = _mm256_add_ps(load_elements<T>(sums + kFloatsAtOnce * sizeof(T)), high);
  }
  store_elements<T, nans && !accumulate>(out, low, high);
}

template <class T, class Codec, bool accumulate, bool nans, class Dequantizer>
TERSE_INLINE void decode_by_registers(const uint8_t* codes, size_t n, const Form& form,
                                      const Dequantizer& dequantizer, void* out) {
  char* const to = static_cast<char*>(out);
  size_t i = 0;
  for (; i + kValuesAtOnce <= n; i += kValuesAtOnce)
    decode_registers<T, Codec, accumulate, nans>(
        codes + i, form, [&](size_t k) { return dequantizer(i + k); }, to + i * sizeof(T));
  if (i == n) return;
  uint8_t rest[kValuesAtOnce] = {};
  T of_rest[kValuesAtOnce] = {};
  std::memcpy(rest, codes + i, n - i);
  if constexpr (accumulate) std::memcpy(of_rest, to + i * sizeof(T), (n - i) * sizeof(T));
  decode_registers<T, Codec, accumulate, nans>(
      rest, form, [&](size_t k) { return dequantizer(i + k < n ? i + k : i); }, of_rest);
  std::memcpy(to + i * sizeof(T), of_rest, (n - i) * sizeof(T));
}
#else
template <class T, class Codec, bool accumulate, bool nans, class Dequantizer>
TERSE_INLINE void decode_by_registers(const uint8_t*, size_t, const Form&, const Dequantizer&,
                                      void*) {}
#endif

}  // namespace
}  // namespace terse::codec::TERSE_ISA
