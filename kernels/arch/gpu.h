// Wrappers of the instructions of a GPU that kernel source uses. tests/tools/simt/arch.h has the
// same interface for the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "codec/float16.h"
#include "codec/minifloat.h"

#define TERSE_DEVICE __device__ __forceinline__
#define TERSE_UNROLL _Pragma("unroll")
#define TERSE_NO_UNROLL _Pragma("unroll 1")

namespace terse::simt {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

TERSE_DEVICE uint32_t thread_index() { return threadIdx.x; }
TERSE_DEVICE uint32_t block_size() { return blockDim.x; }
TERSE_DEVICE uint32_t block_index() { return blockIdx.x; }
TERSE_DEVICE uint32_t grid_size() { return gridDim.x; }

// Value that the compiler takes for a new one, so that what depends on it is computed anew and not
// kept in registers.
TERSE_DEVICE uint32_t opaque(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// All lanes of the warp take part in these.
template <class T>
TERSE_DEVICE T shuffle_xor(T value, uint32_t distance) {
  static_assert(sizeof(T) == 4);
  return __shfl_xor_sync(kAllLanes, value, distance);
}

template <class T>
TERSE_DEVICE T shuffle(T value, uint32_t lane) {
  static_assert(sizeof(T) == 4);
  return __shfl_sync(kAllLanes, value, lane);
}

TERSE_DEVICE uint32_t ballot(bool predicate) { return __ballot_sync(kAllLanes, predicate); }
TERSE_DEVICE void sync_warp() { __syncwarp(); }
TERSE_DEVICE void sync_block() { __syncthreads(); }

// Four of the bytes of a and b, which count 0 to 3 and 4 to 7: one for each digit of `which`, the
// lowest first.
TERSE_DEVICE uint32_t permute(uint32_t a, uint32_t b, uint32_t which) {
  return __byte_perm(a, b, which);
}

// Converts two fp32 numbers to neighbouring 16-bit ones, the first one lower, to nearest, ties to
// even. NaN gives some NaN.
template <class T>
TERSE_DEVICE uint32_t round_pair(float low, float high) {
#if __CUDA_ARCH__ >= 800
  uint32_t pair;
  if constexpr (std::is_same_v<T, codec::bfloat_t>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return codec::from_float<T>(low).bits | static_cast<uint32_t>(codec::from_float<T>(high).bits)
                                              << 16;
#endif
}

TERSE_DEVICE float to_float(codec::bfloat_t x) { return codec::to_float(x); }
TERSE_DEVICE float to_float(codec::half_t x) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
  return value;
}

// True if the machine converts numbers of a format from and to elements of a type; E2M1 only in
// code for a family of architectures, as 100f.
template <class Format, class Raw>
constexpr bool kConverts = false;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
template <class Raw>
inline constexpr bool kConverts<codec::E4M3, Raw> = true;
template <class Raw>
inline constexpr bool kConverts<codec::E5M2, Raw> = true;
#endif
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) && __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000
template <class Raw>
inline constexpr bool kConverts<codec::E2M1, Raw> = true;
#endif

// The codes of two finite numbers in the bytes of 16 bits, the first one's lower: to nearest, ties
// to even, saturating.
template <class Format>
TERSE_DEVICE uint32_t to_codes(float low, float high);

template <>
TERSE_DEVICE uint32_t to_codes<codec::E4M3>(float low, float high) {
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}

template <>
TERSE_DEVICE uint32_t to_codes<codec::E5M2>(float low, float high) {
  uint16_t codes;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
  return codes;
}

template <>
TERSE_DEVICE uint32_t to_codes<codec::E2M1>(float low, float high) {
  uint16_t byte;
  asm("{ .reg .b8 b; cvt.rn.satfinite.e2m1x2.f32 b, %1, %2; mov.b16 %0, {b, 0}; }"
      : "=h"(byte)
      : "f"(high), "f"(low));
  return (byte & 0x0fu) | (byte & 0xf0u) << 4;
}

// Inverse conversion: two fp16 numbers. A code that is no number gives some NaN, or infinity.
template <class Format>
TERSE_DEVICE uint32_t to_halves(uint32_t codes);

template <>
TERSE_DEVICE uint32_t to_halves<codec::E4M3>(uint32_t codes) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(codes)));
  return halves;
}

template <>
TERSE_DEVICE uint32_t to_halves<codec::E5M2>(uint32_t codes) {
  uint32_t halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<uint16_t>(codes)));
  return halves;
}

template <>
TERSE_DEVICE uint32_t to_halves<codec::E2M1>(uint32_t codes) {
  const uint16_t byte = static_cast<uint16_t>((codes & 0x0fu) | (codes >> 4 & 0xf0u));
  uint32_t halves;
  asm("{ .reg .b8 b, z; mov.b16 {b, z}, %1; cvt.rn.f16x2.e2m1x2 %0, b; }"
      : "=r"(halves)
      : "h"(byte));
  return halves;
}

// The machine's words for memory accesses of 1, 2, 4, 8 and 16 bytes.
template <size_t bytes>
struct Word;
template <>
struct Word<1> {
  using Type = unsigned char;
};
template <>
struct Word<2> {
  using Type = unsigned short;
};
template <>
struct Word<4> {
  using Type = unsigned int;
};
template <>
struct Word<8> {
  using Type = uint2;
};
template <>
struct Word<16> {
  using Type = uint4;
};

template <class To, class From>
TERSE_DEVICE To reinterpret_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof(To));
  return to;
}

// Global memory. The address is a multiple of sizeof(T).
template <class T>
TERSE_DEVICE T load(const T* from) {
  using W = typename Word<sizeof(T)>::Type;
  const W word = *reinterpret_cast<const W*>(from);  // a copy of its bytes would load them singly
  return reinterpret_bits<T>(word);
}

template <class T>
TERSE_DEVICE void store(T* to, T value) {
  using W = typename Word<sizeof(T)>::Type;
  *reinterpret_cast<W*>(to) = reinterpret_bits<W>(value);
}

// Stores for the host to read, behind all that this thread has stored before.
template <class T>
TERSE_DEVICE void publish(T* to, T value) {
  __threadfence_system();
  store(to, value);
}

// Accesses to what is read or written once, and should leave the cache first.
template <class T>
TERSE_DEVICE T load_streaming(const T* from) {
  using W = typename Word<sizeof(T)>::Type;
  return reinterpret_bits<T>(__ldcs(reinterpret_cast<const W*>(from)));
}

template <class T>
TERSE_DEVICE void store_streaming(T* to, T value) {
  using W = typename Word<sizeof(T)>::Type;
  __stcs(reinterpret_cast<W*>(to), reinterpret_bits<W>(value));
}

TERSE_DEVICE void atomic_add(uint64_t* to, uint64_t value) {
  static_assert(sizeof(unsigned long long) == sizeof(uint64_t));
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

// *to is the larger one from then on.
TERSE_DEVICE void atomic_max(uint32_t* to, uint32_t value) { atomicMax(to, value); }

// Shared memory.
template <class T>
TERSE_DEVICE T shared_load(const T& from) {
  return from;
}

template <class T>
TERSE_DEVICE void shared_store(T& to, T value) {
  to = value;
}

TERSE_DEVICE void shared_atomic_add(uint64_t& to, uint64_t value) { atomic_add(&to, value); }

}  // namespace terse::simt
