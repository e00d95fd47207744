// Wrappers of the instructions of a GPU that kernel source uses, on the CPU. kernels/arch/gpu.h has
// the same interface for a GPU, without the last parameter, which names the place of the call in
// messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "codec/float16.h"
#include "codec/minifloat.h"
#include "processor.h"
#include "small_float.h"

#define TERSE_DEVICE inline
#define TERSE_UNROLL
#define TERSE_NO_UNROLL

namespace terse::simt {

constexpr uint32_t kWarp = internal::kLanes;

inline uint32_t thread_index() { return internal::processor().thread_index(); }
inline uint32_t block_size() { return internal::processor().launch().threads; }
inline uint32_t block_index() { return internal::processor().block_index(); }
inline uint32_t grid_size() { return internal::processor().launch().blocks; }
inline uint32_t opaque(uint32_t value) { return value; }

namespace internal {

template <class To, class From>
To reinterpret_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> &&
                std::is_trivially_copyable_v<From>);
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

// Where an access to `at` goes: by mistake, to the element after it.
template <class T>
T* place(T* at, Mistake mistake, Site site) {
  return at + processor().makes(mistake, site);
}

// Before an access to global memory, which must be allowed, and in an order with others' to
// windows.
inline void reach(Operation operation, const void* at, size_t bytes, Site site) {
  check_global(operation, at, bytes, site);
  processor().touch(operation, at, bytes, site);
}

// The lane that a shuffle reads from.
inline uint32_t source_lane(uint32_t lane, Site site) {
  return processor().makes(Mistake::kWrongLane, site) ? lane ^ 1 : lane;
}

template <class T>
constexpr bool kAccessible = std::is_trivially_copyable_v<T> &&
                             (sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 ||
                              sizeof(T) == 8 || sizeof(T) == 16);

}  // namespace internal

// All lanes of the warp take part in these.
template <class T>
T shuffle_xor(T value, uint32_t distance, Site site = Site::here()) {
  static_assert(sizeof(T) == 4);
  internal::Processor& p = internal::processor();
  const uint32_t source = internal::source_lane(p.thread_index() % kWarp ^ distance, site);
  return internal::reinterpret_bits<T>(p.meet_warp(
      internal::Activity::kShuffleXor, internal::reinterpret_bits<uint32_t>(value), source, site));
}

template <class T>
T shuffle(T value, uint32_t lane, Site site = Site::here()) {
  static_assert(sizeof(T) == 4);
  return internal::reinterpret_bits<T>(internal::processor().meet_warp(
      internal::Activity::kShuffle, internal::reinterpret_bits<uint32_t>(value),
      internal::source_lane(lane, site), site));
}

inline uint32_t ballot(bool predicate, Site site = Site::here()) {
  return internal::processor().meet_warp(internal::Activity::kBallot, predicate, 0, site);
}

inline void sync_warp(Site site = Site::here()) {
  internal::Processor& p = internal::processor();
  if (p.makes(Mistake::kNoBarrier, site)) return p.step(site);
  p.meet_warp(internal::Activity::kSyncWarp, 0, 0, site);
}

inline void sync_block(Site site = Site::here()) {
  internal::Processor& p = internal::processor();
  if (p.makes(Mistake::kNoBarrier, site)) return p.step(site);
  p.meet_block(site);
}

// Four of the bytes of a and b, which count 0 to 3 and 4 to 7: one for each digit of `which`, the
// lowest first.
inline uint32_t permute(uint32_t a, uint32_t b, uint32_t which) {
  const uint64_t bytes = a | static_cast<uint64_t>(b) << 32;
  uint32_t word = 0;
  for (int i = 0; i < 4; ++i)
    word |= static_cast<uint32_t>(bytes >> (8 * (which >> (4 * i) & 7)) & 0xff) << (8 * i);
  return word;
}

// Two fp32 numbers as neighbouring 16-bit ones, the first one lower, to nearest, ties to even. NaN
// becomes 0x7fff, as on a GPU.
template <class T>
uint32_t round_pair(float low, float high) {
  const auto one = [](float x) -> uint32_t {
    return x == x ? codec::from_float<T>(x).bits : 0x7fff;
  };
  return one(low) | one(high) << 16;
}

template <class T>
float to_float(T x) {
  return codec::to_float(x);
}

// This machine converts the formats that any GPU does, but fp32 alone: of other elements the
// kernels convert all, as on GPUs that convert none.
template <class Format, class Raw>
constexpr bool kConverts = false;
template <>
inline constexpr bool kConverts<codec::E4M3, float> = true;
template <>
inline constexpr bool kConverts<codec::E5M2, float> = true;
template <>
inline constexpr bool kConverts<codec::E2M1, float> = true;

namespace internal {

template <class Format>
uint32_t code_of(float x);
template <>
inline uint32_t code_of<codec::E4M3>(float x) {
  return convert(x, 3, -6, 448, 0x7f, 0x80);
}
template <>
inline uint32_t code_of<codec::E5M2>(float x) {
  return convert(x, 2, -14, 57344, 0x7f, 0x80);
}
template <>
inline uint32_t code_of<codec::E2M1>(float x) {
  return convert(x, 1, 0, 6, 0x7, 0x8);
}

template <class Format>
uint32_t half_of(uint32_t code) {
  constexpr bool e4m3 = std::is_same_v<Format, codec::E4M3>,
                 e5m2 = std::is_same_v<Format, codec::E5M2>;
  constexpr uint32_t kSign = e4m3 || e5m2 ? 0x80 : 0x8;
  const uint32_t magnitude = code & (kSign - 1), sign = code & kSign ? 0x8000u : 0;
  if (e5m2) return code << 8;  // its bits are the upper ones of fp16
  if (e4m3 && magnitude == 0x7f) return 0x7fff;
  const float value = e4m3 ? number(magnitude, 3, -6) : number(magnitude, 1, 0);
  return codec::from_float<codec::half_t>(value).bits | sign;
}

}  // namespace internal

template <class Format>
uint32_t to_codes(float low, float high) {
  return internal::code_of<Format>(low) | internal::code_of<Format>(high) << 8;
}

template <class Format>
uint32_t to_halves(uint32_t codes) {
  return internal::half_of<Format>(codes & 0xff) | internal::half_of<Format>(codes >> 8 & 0xff)
                                                       << 16;
}

// Global memory. The address is a multiple of sizeof(T).
template <class T>
T load(const T* from, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  internal::processor().step(site);
  from = internal::place(from, Mistake::kLoadsFurther, site);
  internal::reach(internal::Operation::kLoad, from, sizeof(T), site);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store(T* to, T value, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  internal::processor().step(site);
  to = internal::place(to, Mistake::kStoresFurther, site);
  internal::reach(internal::Operation::kStore, to, sizeof(T), site);
  std::memcpy(to, &value, sizeof(T));
}

template <class T>
void publish(T* to, T value, Site site = Site::here()) {
  store(to, value, site);
}

template <class T>
T load_streaming(const T* from, Site site = Site::here()) {
  return load(from, site);
}

template <class T>
void store_streaming(T* to, T value, Site site = Site::here()) {
  store(to, value, site);
}

// Returns the old value.
template <class T>
T atomic_add(T* to, T value, Site site = Site::here()) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  internal::processor().step(site);
  to = internal::place(to, Mistake::kStoresFurther, site);
  internal::reach(internal::Operation::kAtomicAdd, to, sizeof(T), site);
  T old;
  std::memcpy(&old, to, sizeof(T));
  T sum;
  if constexpr (std::is_integral_v<T>) {  // signed integers wrap, too
    using Unsigned = std::make_unsigned_t<T>;
    sum = static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));
  } else {
    sum = old + value;
  }
  std::memcpy(to, &sum, sizeof(T));
  return old;
}

// *to is the larger one from then on.
inline void atomic_max(uint32_t* to, uint32_t value, Site site = Site::here()) {
  internal::processor().step(site);
  to = internal::place(to, Mistake::kStoresFurther, site);
  internal::reach(internal::Operation::kAtomicMax, to, sizeof(*to), site);
  if (*to < value) *to = value;
}

// Shared memory.
template <class T>
T shared_load(const T& from, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  const T* const at = internal::place(&from, Mistake::kLoadsFurther, site);
  internal::processor().shared_read(at, sizeof(T), site);
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class T>
void shared_store(T& to, T value, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  T* const at = internal::place(&to, Mistake::kStoresFurther, site);
  internal::processor().shared_write(at, sizeof(T), site);
  std::memcpy(at, &value, sizeof(T));
}

inline void shared_atomic_add(uint64_t& to, uint64_t value, Site site = Site::here()) {
  uint64_t* const at = internal::place(&to, Mistake::kStoresFurther, site);
  internal::processor().shared_add(at, sizeof(*at), site);
  *at += value;
}

}  // namespace terse::simt
