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

}  // namespace
}  // namespace terse::codec::TERSE_ISA
