// A part of host_ops.cc: what a codec asks of a block.
//
// It is taken of the elements as integers, which order as the numbers do: the compiler
// vectorises that without leave to reassociate, and does not have to widen.
#pragma once

#include "codec/block.h"
#include "codec/host/elements.h"
#include "codec/host/registers.h"

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

// The largest of each `width` neighbours, of which there are `groups`: by halves. May overwrite
// both.
template <size_t groups, size_t width, class X>
TERSE_INLINE const X* largest_of_groups(X* __restrict in, X* __restrict out) {
  if constexpr (width == 1) {
    return in;
  } else {
    for (size_t i = 0; i < groups * width / 2; ++i)
      out[i] = in[2 * i] > in[2 * i + 1] ? in[2 * i] : in[2 * i + 1];
    return largest_of_groups<groups, width / 2>(out, in);
  }
}

// The absmax of each `share` elements, and of the last ones, which may be fewer. Loops over few
// elements would be reduced within registers, one by one: here they are reduced side by side.
template <class T, size_t share>
TERSE_INLINE void absmaxes(const void* in, size_t n, float* __restrict out) {
  constexpr size_t kRegister = kRegisterBytes / sizeof(T);
  constexpr size_t kWidth = share < kRegister ? share : kRegister, kAtOnce = 512 / share;
  const char* const bytes = static_cast<const char*>(in);
  alignas(64) Integer<T> magnitudes[kAtOnce * kWidth], halved[kAtOnce * kWidth / 2];
  size_t i = 0;
  for (; (i + kAtOnce) * share <= n; i += kAtOnce) {
    const char* const from = bytes + i * share * sizeof(T);
    for (size_t k = 0; k < kAtOnce; ++k)
      for (size_t lane = 0; lane < kWidth; ++lane) {
        Integer<T> absmax = 0;
        for (size_t j = lane; j < share; j += kWidth) {
          const Integer<T> magnitude = read<Integer<T>>(from, k * share + j) & kMagnitude<T>;
          absmax = magnitude > absmax ? magnitude : absmax;
        }
        magnitudes[k * kWidth + lane] = absmax;
      }
    const Integer<T>* const each = largest_of_groups<kAtOnce, kWidth>(magnitudes, halved);
    for (size_t k = 0; k < kAtOnce; ++k) out[i + k] = as_float<T>(each[k]);
  }
  for (; i * share < n; ++i) {
    AbsMax observed;
    stats<T>(bytes + i * share * sizeof(T), block_at(i * share, n, share), observed);
    out[i] = observed.absmax;
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
