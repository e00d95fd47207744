// What the codec source needs of its compiler, so that one text serves the host loops and the CUDA
// kernels. Everything here is inlined: the host loops are compiled once per instruction set, and an
// out-of-line copy could be merged by the linker into code that runs on an older processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TERSE_INLINE __host__ __device__ __forceinline__
#else
#define TERSE_INLINE inline __attribute__((always_inline))
#endif

namespace terse::codec {

TERSE_INLINE uint32_t float_bits(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  return __builtin_bit_cast(uint32_t, x);
#endif
}

TERSE_INLINE float bits_float(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return __builtin_bit_cast(float, bits);
#endif
}

// Multiply and add that the compiler must not contract into one fused operation: host and device
// must round alike. The host is built with -ffp-contract=off.
TERSE_INLINE float mul(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

TERSE_INLINE float add(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

TERSE_INLINE float div(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

// The integer nearest to x, ties to even, for |x| < 2^22: 1.5 * 2^23 pushes the fraction out of the
// significand, and the low bits that remain are the integer.
TERSE_INLINE int32_t round_nearest(float x) {
  return static_cast<int32_t>(float_bits(add(x, 12582912.0f)) - 0x4b400000u);
}

// The largest integer not above x, for |x| < 2^22.
TERSE_INLINE int32_t round_down(float x) {
  const int32_t nearest = round_nearest(x);
  return nearest - (static_cast<float>(nearest) > x ? 1 : 0);
}

TERSE_INLINE int32_t clamp(int32_t x, int32_t low, int32_t high) {
  return x < low ? low : (x > high ? high : x);
}

constexpr uint32_t kNanBits = 0x7fc00000u;       // the only NaN that terse writes, as fp32
constexpr uint32_t kInfinityBits = 0x7f800000u;  // as fp32; larger magnitudes are NaNs

TERSE_INLINE bool is_finite(float x) { return (float_bits(x) & 0x7fffffffu) < kInfinityBits; }

}  // namespace terse::codec
