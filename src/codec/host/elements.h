// A part of host_ops.cc: elements in user memory, and to fp32 and back.
#pragma once

#include <type_traits>

#include "codec/float16.h"
#include "codec/half.h"
#include "codec/host/avx2.h"
#include "codec/portable.h"
#include "codec/spec.h"

namespace terse::codec::TERSE_ISA {
namespace {

template <class T>
TERSE_INLINE T read(const void* in, size_t i) {
  T x;
  std::memcpy(&x, static_cast<const char*>(in) + i * sizeof(T), sizeof(T));
  return x;
}

template <class T>
TERSE_INLINE void write(void* out, size_t i, T x) {
  std::memcpy(static_cast<char*>(out) + i * sizeof(T), &x, sizeof(T));
}

// The elements of the block that begins at i.
TERSE_INLINE size_t block_at(size_t i, size_t n, size_t block) {
  return n - i < block ? n - i : block;
}

// Elements that pass through fp32 in memory at a time.
constexpr size_t kFloats = kMaxBlock;

// Elements to fp32 and back; fp16 by the machine, where it converts.
template <class T>
TERSE_INLINE void to_floats(const void* in, size_t n, float* __restrict out) {
  size_t i = 0;
  if constexpr (kConvertsHalves<T>)
    for (; i + kHalvesAtOnce <= n; i += kHalvesAtOnce)
      load_halves(static_cast<const char*>(in) + i * sizeof(T), out + i);
  for (; i < n; ++i) out[i] = to_float(read<T>(in, i));
}

template <class T>
TERSE_INLINE void from_floats(const void* __restrict in, size_t n, void* __restrict out) {
  size_t i = 0;
  if constexpr (kConvertsHalves<T>)
    for (; i + kHalvesAtOnce <= n; i += kHalvesAtOnce)
      store_halves(static_cast<const char*>(in) + i * sizeof(float),
                   static_cast<char*>(out) + i * sizeof(T));
#ifdef TERSE_AVX2
  if constexpr (std::is_same_v<T, bfloat_t>)
    for (; i + 2 * kFloatsAtOnce <= n; i += 2 * kFloatsAtOnce) {
      const float* const x = static_cast<const float*>(in) + i;
      store_elements<T, true>(static_cast<char*>(out) + i * sizeof(T), _mm256_loadu_ps(x),
                              _mm256_loadu_ps(x + kFloatsAtOnce));
    }
#endif
  for (; i < n; ++i) write(out, i, from_float<T>(read<float>(in, i)));
}

template <class T>
void load(const void* in, size_t n, float* out) {
  to_floats<T>(in, n, out);
}

template <class T>
void load_add(const void* in, size_t n, float* __restrict out) {
  size_t i = 0;
#ifdef TERSE_AVX2
  for (; i + kFloatsAtOnce <= n; i += kFloatsAtOnce) {
    const __m256 x = load_elements<T>(static_cast<const char*>(in) + i * sizeof(T));
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(out + i), x));
  }
#else
  if constexpr (kConvertsHalves<T>) {
    float x[kFloats];
    for (; i < n; i += kFloats) {
      const size_t some = block_at(i, n, kFloats);
      to_floats<T>(static_cast<const char*>(in) + i * sizeof(T), some, x);
      for (size_t k = 0; k < some; ++k) out[i + k] = add(out[i + k], x[k]);
    }
  }
#endif
  for (; i < n; ++i) out[i] = add(out[i], to_float(read<T>(in, i)));
}

template <class T>
void store(const float* in, size_t n, void* out) {
  from_floats<T>(in, n, out);
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
