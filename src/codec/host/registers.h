// A part of host_ops.cc: the registers of the instruction set.
#pragma once

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "codec/portable.h"

namespace terse::codec::TERSE_ISA {
namespace {

// TERSE_SIMD(operation): the intrinsic for whole registers, on x86.
#if defined(__AVX512F__)
constexpr size_t kRegisterBytes = 64;
#define TERSE_SIMD(operation) _mm512_##operation
#elif defined(__AVX2__)
constexpr size_t kRegisterBytes = 32;
#define TERSE_SIMD(operation) _mm256_##operation
#else
constexpr size_t kRegisterBytes = 16;
#define TERSE_SIMD(operation) _mm_##operation
#endif

// The 64-bit lanes of a register.
constexpr size_t kLanes = kRegisterBytes / 8;
using Lanes = uint64_t __attribute__((vector_size(kRegisterBytes)));

// The products of lanes' low halves.
#if defined(__SSE2__)
using LongLanes = long long __attribute__((vector_size(kRegisterBytes)));

TERSE_INLINE Lanes multiply_low(Lanes a, Lanes b) {
  return Lanes(TERSE_SIMD(mul_epu32)(LongLanes(a), LongLanes(b)));
}
#else
TERSE_INLINE Lanes multiply_low(Lanes a, Lanes b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }
#endif

}  // namespace
}  // namespace terse::codec::TERSE_ISA
