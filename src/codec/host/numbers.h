// A part of host_ops.cc: the numbers that codes of small floats are, by the machine's conversion of
// fp16, of which all of them are a part (avx2.h).
#pragma once

#include <type_traits>

#include "codec/host/avx2.h"
#include "codec/minifloat.h"

namespace terse::codec::TERSE_ISA {
namespace {

// Whether decode_numbers() of a codec's codes writes elements of a type.
template <class T, class Codec>
constexpr bool kDecodesNumbers = false;

#ifdef TERSE_AVX2
template <class T, class Codec>
requires(!std::is_same_v<T, half_t> && requires {
  typename Codec::Numbers;
}) constexpr bool kDecodesNumbers<T, Codec> = Codec::Numbers::kBits <= 8;

constexpr size_t kNumbersAtOnce = 2 * kFloatsAtOnce;

TERSE_INLINE __m256i shorts(uint32_t x) { return _mm256_set1_epi16(static_cast<short>(x)); }

// Numbers as fp16, whose exponents have a larger bias: times a power of two.
template <int exponent_bits, int mantissa_bits, uint32_t largest, bool infinity>
struct AsHalves {
  using Format = MiniFloat<exponent_bits, mantissa_bits, largest, infinity>;
  static constexpr float kFactor = static_cast<float>(1 << (15 - Format::kBias));

  static TERSE_INLINE __m256i of(const uint8_t* codes) {
    constexpr int kUp = 10 - mantissa_bits;
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes));
    const __m256i code = _mm256_cvtepu8_epi16(bytes);
    const __m256i magnitude = _mm256_and_si256(code, shorts((1u << (Format::kBits - 1)) - 1));
    const __m256i sign =
        _mm256_and_si256(_mm256_slli_epi16(code, 16 - Format::kBits), shorts(0x8000));
    __m256i halves = _mm256_or_si256(_mm256_slli_epi16(magnitude, kUp), sign);
    if constexpr (Format::kHasNan && !infinity)
      halves = _mm256_or_si256(halves, _mm256_cmpgt_epi16(magnitude, shorts(largest)));
    return halves;
  }
};

template <int exponent_bits, int mantissa_bits, uint32_t largest, bool infinity>
AsHalves<exponent_bits, mantissa_bits, largest, infinity> as_halves(
    MiniFloat<exponent_bits, mantissa_bits, largest, infinity>);

// Values of kNumbersAtOnce codes. `dequantizer(i)`: that of element i, and of all in its register.
template <class T, class Codec, bool accumulate, bool nans, class Dequantizer>
TERSE_INLINE void decode_numbers_at_once(const uint8_t* codes, const Dequantizer& dequantizer,
                                         void* out) {
  using Halves = decltype(as_halves(typename Codec::Numbers{}));
  const __m256i halves = Halves::of(codes);
  const auto value = [&](__m128i of_these, size_t i) {
    __m256 v = _mm256_cvtph_ps(of_these);
    if constexpr (Halves::kFactor != 1) v = _mm256_mul_ps(v, _mm256_set1_ps(Halves::kFactor));
    v = _mm256_mul_ps(v, _mm256_set1_ps(dequantizer(i).scale));
    if constexpr (accumulate)
      v = _mm256_add_ps(load_elements<T>(static_cast<const char*>(out) + i * sizeof(T)), v);
    return v;
  };
  const __m256 low = value(_mm256_castsi256_si128(halves), 0);
  const __m256 high = value(_mm256_extracti128_si256(halves, 1), kFloatsAtOnce);
  store_elements<T, nans && !accumulate>(out, low, high);
}

template <class T, class Codec, bool accumulate, bool nans, class Dequantizer>
TERSE_INLINE void decode_numbers(const uint8_t* codes, size_t n, const Dequantizer& dequantizer,
                                 void* out) {
  char* const to = static_cast<char*>(out);
  size_t i = 0;
  for (; i + kNumbersAtOnce <= n; i += kNumbersAtOnce)
    decode_numbers_at_once<T, Codec, accumulate, nans>(
        codes + i, [&](size_t k) { return dequantizer(i + k); }, to + i * sizeof(T));
  if (i == n) return;
  uint8_t rest[kNumbersAtOnce] = {};
  T of_rest[kNumbersAtOnce] = {};
  std::memcpy(rest, codes + i, n - i);
  if constexpr (accumulate) std::memcpy(of_rest, to + i * sizeof(T), (n - i) * sizeof(T));
  decode_numbers_at_once<T, Codec, accumulate, nans>(
      rest, [&](size_t k) { return dequantizer(i + k < n ? i + k : i); }, of_rest);
  std::memcpy(to + i * sizeof(T), of_rest, (n - i) * sizeof(T));
}
#else
template <class T, class Codec, bool accumulate, bool nans, class Dequantizer>
TERSE_INLINE void decode_numbers(const uint8_t*, size_t, const Dequantizer&, void*) {}
#endif

}  // namespace
}  // namespace terse::codec::TERSE_ISA
