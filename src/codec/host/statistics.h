// A part of host_ops.cc: what a codec asks of a block.
//
// It is taken of the elements as integers, which order as the numbers do: the compiler
// vectorises that without leave to reassociate, and does not have to widen.
#pragma once

#include "codec/block.h"
#include "codec/host/elements.h"

namespace terse::codec::TERSE_ISA {
namespace {

// Integers of an element's width.
template <class T>
struct IntegerOf {
  using type = int16_t;
};
template <>
struct IntegerOf<float> {
  using type = int32_t;
};
template <class T>
using Integer = typename IntegerOf<T>::type;

template <class T>
constexpr Integer<T> kMagnitude = static_cast<Integer<T>>(~(uint64_t{1} << (8 * sizeof(T) - 1)));

template <class T>
TERSE_INLINE float as_float(Integer<T> bits) {
  return to_float(__builtin_bit_cast(T, bits));
}

template <class T>
TERSE_INLINE void stats(const void* in, size_t n, AbsMax& result) {
  Integer<T> absmax = 0;
  for (size_t i = 0; i < n; ++i) {
    const Integer<T> magnitude = read<Integer<T>>(in, i) & kMagnitude<T>;
    absmax = magnitude > absmax ? magnitude : absmax;
  }
  observe(result, as_float<T>(absmax));
}

// Negative numbers' magnitude bits inverted: as integers they order as numbers, NaN outermost, so
// that one shows in the lowest or the highest.
template <class T>
TERSE_INLINE Integer<T> ordered(Integer<T> bits) {
  return bits ^ (bits >> (8 * sizeof(T) - 1) & kMagnitude<T>);
}

template <class T>
TERSE_INLINE void stats(const void* in, size_t n, Extent& result) {
  Integer<T> low = kMagnitude<T>, high = ~kMagnitude<T>;
  for (size_t i = 0; i < n; ++i) {
    const Integer<T> x = ordered<T>(read<Integer<T>>(in, i));
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  observe(result, as_float<T>(ordered<T>(low)));
  observe(result, as_float<T>(ordered<T>(high)));
}

template <class T>
TERSE_INLINE void stats(const void*, size_t, NoStats&) {}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
