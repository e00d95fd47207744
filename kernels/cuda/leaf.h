// The leaf wrappers on a GPU: all that kernel source asks of the machine. tests/simt has the same
// interface for the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#define TERSE_DEVICE __device__ __forceinline__
#define TERSE_UNROLL _Pragma("unroll")

namespace terse::simt {

constexpr uint32_t kWarp = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;

TERSE_DEVICE uint32_t thread_index() { return threadIdx.x; }
TERSE_DEVICE uint32_t block_size() { return blockDim.x; }
TERSE_DEVICE uint32_t block_index() { return blockIdx.x; }
TERSE_DEVICE uint32_t grid_size() { return gridDim.x; }

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

// The low bytes of four words, the first one lowest.
TERSE_DEVICE uint32_t low_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
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
  return reinterpret_bits<T>(*reinterpret_cast<const W*>(from));
}

template <class T>
TERSE_DEVICE void store(T* to, T value) {
  using W = typename Word<sizeof(T)>::Type;
  *reinterpret_cast<W*>(to) = reinterpret_bits<W>(value);
}

// For what is read or written once: it should leave the cache first.
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

// Shared memory.
template <class T>
TERSE_DEVICE T shared_load(const T& from) {
  return from;
}

template <class T>
TERSE_DEVICE void shared_store(T& to, T value) {
  to = value;
}

}  // namespace terse::simt
