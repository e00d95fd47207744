// A part of host_ops.cc: AVX2's registers of elements, for what compilers do badly with them: they
// widen and narrow within the halves of registers, and put that in order at each step. AVX-512 has
// instructions for it.
#pragma once

#include "codec/float16.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && !defined(__AVX512F__)
#include <immintrin.h>

#define TERSE_AVX2

namespace terse::codec::TERSE_ISA {
namespace {

constexpr size_t kFloatsAtOnce = 8;

TERSE_INLINE __m256i words(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
TERSE_INLINE __m256i as_words(__m256 x) { return _mm256_castps_si256(x); }
TERSE_INLINE __m256 as_floats(__m256i x) { return _mm256_castsi256_ps(x); }

// Clamps as cut() does. These instructions take the second one of equal operands, so that zeros
// keep their signs.
TERSE_INLINE __m256 cut(__m256 x, float limit) {
  const __m256 capped = _mm256_min_ps(_mm256_set1_ps(limit), x);
  return _mm256_max_ps(_mm256_set1_ps(-limit), capped);
}

// Loads words of 16 bits.
TERSE_INLINE __m256i load_words(const void* in) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(in)));
}

template <class T>
TERSE_INLINE __m256 load_elements(const void* in) {
  return _mm256_loadu_ps(static_cast<const float*>(in));
}
template <>
TERSE_INLINE __m256 load_elements<bfloat_t>(const void* in) {
  return as_floats(_mm256_slli_epi32(load_words(in), 16));
}
template <>
TERSE_INLINE __m256 load_elements<half_t>(const void* in) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(in)));
}

// Two registers of elements. `nans`: there may be NaNs.
template <class T, bool nans>
TERSE_INLINE void store_elements(void* out, __m256 a, __m256 b);

TERSE_INLINE __m256 with_canonical_nans(__m256 x) {
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  return _mm256_blendv_ps(x, as_floats(words(kNanBits)), nan);
}
template <>
TERSE_INLINE void store_elements<float, false>(void* out, __m256 a, __m256 b) {
  _mm256_storeu_ps(static_cast<float*>(out), a);
  _mm256_storeu_ps(static_cast<float*>(out) + kFloatsAtOnce, b);
}
template <>
TERSE_INLINE void store_elements<float, true>(void* out, __m256 a, __m256 b) {
  store_elements<float, false>(out, with_canonical_nans(a), with_canonical_nans(b));
}

// Converts as from_number<bfloat_t>() does.
TERSE_INLINE __m256i bf16_words(__m256 x) {
  const __m256i bits = as_words(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), words(1));
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, words(0x7fff)), odd), 16);
}
template <>
TERSE_INLINE void store_elements<bfloat_t, false>(void* out, __m256 a, __m256 b) {
  const __m256i packed = _mm256_packus_epi32(bf16_words(a), bf16_words(b));
  _mm256_storeu_si256(static_cast<__m256i*>(out), _mm256_permute4x64_epi64(packed, 0xd8));
}
template <>
TERSE_INLINE void store_elements<bfloat_t, true>(void* out, __m256 a, __m256 b) {
  store_elements<bfloat_t, false>(out, with_canonical_nans(a), with_canonical_nans(b));
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
#endif
