// The leaf wrappers on the CPU: all that kernel source asks of the machine. kernels/cuda has the
// same interface for a GPU; the last parameter, which tells messages where the call is, is only
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "processor.h"

#define TERSE_DEVICE inline
#define TERSE_UNROLL

namespace terse::simt {

constexpr uint32_t kWarp = internal::kLanes;

inline uint32_t thread_index() { return internal::processor().thread_index(); }
inline uint32_t block_size() { return internal::processor().launch().threads; }
inline uint32_t block_index() { return internal::processor().block_index(); }
inline uint32_t grid_size() { return internal::processor().launch().blocks; }

namespace internal {

template <class To, class From>
To reinterpret_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From) && std::is_trivially_copyable_v<To> &&
                std::is_trivially_copyable_v<From>);
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
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
  const uint32_t source = p.thread_index() % kWarp ^ distance;
  return internal::reinterpret_bits<T>(p.meet_warp(
      internal::Activity::kShuffleXor, internal::reinterpret_bits<uint32_t>(value), source, site));
}

template <class T>
T shuffle(T value, uint32_t lane, Site site = Site::here()) {
  static_assert(sizeof(T) == 4);
  return internal::reinterpret_bits<T>(internal::processor().meet_warp(
      internal::Activity::kShuffle, internal::reinterpret_bits<uint32_t>(value), lane, site));
}

inline uint32_t ballot(bool predicate, Site site = Site::here()) {
  return internal::processor().meet_warp(internal::Activity::kBallot, predicate, 0, site);
}

inline void sync_warp(Site site = Site::here()) {
  internal::processor().meet_warp(internal::Activity::kSyncWarp, 0, 0, site);
}

inline void sync_block(Site site = Site::here()) { internal::processor().meet_block(site); }

// The low bytes of four words, the first one lowest.
inline uint32_t low_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return (a & 0xff) | (b & 0xff) << 8 | (c & 0xff) << 16 | d << 24;
}

// Global memory. The address is a multiple of sizeof(T).
template <class T>
T load(const T* from, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  internal::processor().step(site);
  internal::check_global(internal::Operation::kLoad, from, sizeof(T), site);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <class T>
void store(T* to, T value, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  internal::processor().step(site);
  internal::check_global(internal::Operation::kStore, to, sizeof(T), site);
  std::memcpy(to, &value, sizeof(T));
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
  internal::check_global(internal::Operation::kAtomicAdd, to, sizeof(T), site);
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

// Shared memory.
template <class T>
T shared_load(const T& from, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  internal::processor().shared_read(&from, sizeof(T), site);
  T value;
  std::memcpy(&value, &from, sizeof(T));
  return value;
}

template <class T>
void shared_store(T& to, T value, Site site = Site::here()) {
  static_assert(internal::kAccessible<T>);
  internal::processor().shared_write(&to, sizeof(T), site);
  std::memcpy(&to, &value, sizeof(T));
}

}  // namespace terse::simt
