// fp16 by the machine's own conversions, where the instruction set has them: the same bits as
// float16.h gives, kHalvesAtOnce of them at a time.
#pragma once

#include "codec/float16.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace terse::codec {

#ifdef __AVX512F__
constexpr size_t kHalvesAtOnce = 16;
#else
constexpr size_t kHalvesAtOnce = 8;
#endif

#ifdef __F16C__
template <class T>
constexpr bool kConvertsHalves = false;
template <>
inline constexpr bool kConvertsHalves<half_t> = true;

#ifdef __AVX512F__
TERSE_INLINE void load_halves(const void* in, float* out) {
  const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(in));
  _mm512_storeu_ps(out, _mm512_cvtph_ps(halves));
}

TERSE_INLINE void store_halves(const void* in, void* out) {
  const __m512 x = _mm512_loadu_ps(in);
  const __m256i halves = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __mmask16 nans = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m256i canonical = _mm256_set1_epi16(0x7e00);
  _mm256_storeu_si256(static_cast<__m256i*>(out), _mm256_mask_blend_epi16(nans, halves, canonical));
}
#else
TERSE_INLINE void load_halves(const void* in, float* out) {
  const __m128i halves = _mm_loadu_si128(static_cast<const __m128i*>(in));
  _mm256_storeu_ps(out, _mm256_cvtph_ps(halves));
}

TERSE_INLINE void store_halves(const void* in, void* out) {
  const __m256 x = _mm256_loadu_ps(static_cast<const float*>(in));
  const __m128i halves = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  const __m128i nans =
      _mm_packs_epi32(_mm256_castsi256_si128(nan), _mm256_extracti128_si256(nan, 1));
  const __m128i canonical = _mm_set1_epi16(0x7e00);
  _mm_storeu_si128(static_cast<__m128i*>(out), _mm_blendv_epi8(halves, canonical, nans));
}
#endif
#else
template <class T>
constexpr bool kConvertsHalves = false;

TERSE_INLINE void load_halves(const void*, float*) {}
TERSE_INLINE void store_halves(const void*, void*) {}
#endif

}  // namespace terse::codec
