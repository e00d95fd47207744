// A part of host_ops.cc: the Walsh-Hadamard transform of 32 neighbours (FORMAT.md, section 4).
#pragma once

#include <utility>

#include "codec/host/registers.h"
#include "codec/spec.h"

namespace terse::codec::TERSE_ISA {
namespace {

constexpr size_t kRegister = kRegisterBytes / sizeof(float);
using Register [[gnu::vector_size(kRegisterBytes)]] = float;
using InMemory [[gnu::vector_size(kRegisterBytes), gnu::aligned(1), gnu::may_alias]] = float;
constexpr size_t kRegisters = kHadamard / kRegister;
#if defined(__AVX512F__)
using Native = __m512;
#elif defined(__AVX2__)
using Native = __m256;
#endif

// Butterflies of elements `distance` apart: of each pair the sum takes the lower place and the
// difference the higher one.
template <size_t distance, size_t... i>
TERSE_INLINE void butterflies(Register& v, std::index_sequence<i...>) {
  const Register signs = {(i & distance ? -1.0f : 1.0f)...};
  const Register others = __builtin_shufflevector(v, v, (i ^ distance)...);
#ifdef __FMA__  // the product is exact
  v = Register(TERSE_SIMD(fmadd_ps)(Native(v), Native(signs), Native(others)));
#else
  v = others + v * signs;
#endif
}

// First those of neighbours, then of those twice as far apart, and so on.
template <size_t distance = 1>
TERSE_INLINE void butterflies(Register (&v)[kRegisters]) {
  if constexpr (distance < kRegister) {
    for (Register& each : v) butterflies<distance>(each, std::make_index_sequence<kRegister>());
  } else {
    constexpr size_t kApart = distance / kRegister;
    for (size_t k = 0; k < kRegisters; ++k) {
      if (k & kApart) continue;
      const Register low = v[k], high = v[k + kApart];
      v[k] = low + high;
      v[k + kApart] = low - high;
    }
  }
  if constexpr (2 * distance < kHadamard) butterflies<2 * distance>(v);
}

// The factor comes first, so that sums stay within fp32. May be in place. Back, NaNs are the only
// one that is ever written (FORMAT.md, section 1); forth, they are not written but encoded.
template <bool back>
TERSE_INLINE void hadamard_group(const void* in, void* out) {
  const InMemory* const x = static_cast<const InMemory*>(in);
  InMemory* const y = static_cast<InMemory*>(out);
  Register v[kRegisters];
  for (size_t k = 0; k < kRegisters; ++k) v[k] = back ? x[k] : x[k] * (1.0f / kHadamard);
  butterflies(v);
  for (size_t k = 0; k < kRegisters; ++k) {
    if constexpr (back) v[k] = v[k] == v[k] ? v[k] : Register{} + bits_float(kNanBits);
    y[k] = v[k];
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
