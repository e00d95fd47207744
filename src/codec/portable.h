// Compiler features of the codec source, so that one text serves the host loops and the CUDA
// kernels. All is inlined: the host loops are compiled once per instruction set, and an out-of-line
// copy could be merged by the linker into code that runs on an older processor.
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

// Multiplies each number of a compiler's vector.
template <class Vector>
requires(sizeof(Vector) > sizeof(double)) TERSE_INLINE Vector mul(Vector a, float b) {
  return a * b;
}

template <class Vector>
requires(sizeof(Vector) > sizeof(double)) TERSE_INLINE Vector add(Vector a, float b) {
  return a + b;
}

TERSE_INLINE double mul(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

TERSE_INLINE double add(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
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

TERSE_INLINE double div(double a, double b) {
#ifdef __CUDA_ARCH__
  return __ddiv_rn(a, b);
#else
  return a / b;
#endif
}

// Small integers and fp32, without conversions, which GPUs are slow at: 1.5 * 2^23 pushes the
// fraction out of the significand, and the low bits that remain are the integer.
constexpr float kPush = 12582912.0f;

// Number of rounded numbers held at once. The host's vectors hold twice as many; a GPU has no
// registers for them.
#ifdef __CUDACC__
using Small = int32_t;
#else
using Small = int16_t;
#endif

// Integer type of codes of a byte, whose values are a byte's.
#ifdef __CUDACC__
using Tiny = uint32_t;
#else
using Tiny = uint8_t;
#endif

// The integer nearest to x, ties to even, for |x| < 2^15.
TERSE_INLINE int32_t nearest_integer(float x) {
  return static_cast<int32_t>(float_bits(add(x, kPush)) - float_bits(kPush));
}
TERSE_INLINE Small round_nearest(float x) { return static_cast<Small>(nearest_integer(x)); }

// Rounds to nearest, into the lowest byte of the word: kPush has no bits there.
TERSE_INLINE uint32_t byte_nearest(float x) { return float_bits(add(x, kPush)); }

// The largest integer not above x, for |x| < 2^15.
TERSE_INLINE int32_t integer_below(float x) {
#ifdef __CUDA_ARCH__
  return static_cast<int32_t>(float_bits(__fadd_rd(x, kPush)) - float_bits(kPush));
#elif defined(__SSE4_1__) || defined(__aarch64__)
  return nearest_integer(__builtin_floorf(x));
#else
  const float pushed = add(x, kPush);
  const uint32_t above = add(pushed, -kPush) > x ? 1 : 0;
  return static_cast<int32_t>(float_bits(pushed) - float_bits(kPush) - above);
#endif
}
TERSE_INLINE Small round_down(float x) { return static_cast<Small>(integer_below(x)); }

// Rounds down, into the lowest byte of the word likewise.
TERSE_INLINE uint32_t byte_below(float x) {
#ifdef __CUDA_ARCH__
  return float_bits(__fadd_rd(x, kPush));
#else
  return static_cast<uint32_t>(integer_below(x));
#endif
}

// Both ends included.
struct Range {
  Small low, high;
};

TERSE_INLINE Small clamp(Small x, const Range& range) {
  const Small bounded = x < range.high ? x : range.high;
  return bounded > range.low ? bounded : range.low;
}

// Bits of 2^23 in fp32; with an integer below 2^23 in the low bits, those of their sum.
constexpr uint32_t kIntegers = 0x4b000000u;

// n - m for n below 2^23 and any such m: exact, for all numbers are integers below 2^24. (A sign
// that n is xored with, and this, are one operation.)
TERSE_INLINE float integer_less(uint32_t n, uint32_t m) {
  return add(bits_float(kIntegers ^ n), -bits_float(kIntegers ^ m));
}

constexpr uint32_t kNanBits = 0x7fc00000u;       // the only NaN that terse writes, as fp32
constexpr uint32_t kInfinityBits = 0x7f800000u;  // as fp32; larger magnitudes are NaNs
constexpr uint32_t kSignBit = 0x80000000u;

TERSE_INLINE float magnitude(float x) {
#ifdef __CUDA_ARCH__
  return fabsf(x);  // which costs nothing there
#else
  return bits_float(float_bits(x) & 0x7fffffffu);
#endif
}

TERSE_INLINE bool is_finite(float x) { return float_bits(magnitude(x)) < kInfinityBits; }

// The smaller and the larger of two numbers; NaN if either is. Which of two zeros, is open.
TERSE_INLINE float smaller(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
#else
  return a < b || a != a ? a : b;
#endif
}

TERSE_INLINE float larger(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
#else
  return a > b || a != a ? a : b;
#endif
}

// x between -limit and limit, or NaN.
TERSE_INLINE float cut(float x, float limit) {
#ifdef __CUDA_ARCH__
  return larger(-limit, smaller(limit, x));
#else
  const float capped = x > limit ? limit : x;
  return capped < -limit ? -limit : capped;
#endif
}

}  // namespace terse::codec
