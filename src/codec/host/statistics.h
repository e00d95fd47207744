// A part of host_ops.cc: what a codec asks of a block.
//
// It is taken of the elements as integers, which order as the numbers do: the compiler
// vectorises that without leave to reassociate, and does not have to widen.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

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

// Vector of so many numbers.
template <class X, size_t n>
struct VectorOf {
  using type [[gnu::vector_size(n * sizeof(X))]] = X;
};
template <class X, size_t n>
using Vector = typename VectorOf<X, n>::type;

template <class V>
TERSE_INLINE V larger_lanes(V a, V b) {
  return a > b ? a : b;
}

// Those that are `distance` lanes away, of each other; as many as there are indices.
template <size_t distance, class V, size_t... lanes>
TERSE_INLINE auto moved_lanes(V v, std::index_sequence<lanes...>) {
  return __builtin_shufflevector(v, v, (lanes ^ distance)...);
}

// The largest of n numbers without a sign.
template <class X, size_t n, size_t distance = n / 2>
TERSE_INLINE X largest_lane(Vector<X, n> v) {
  if constexpr (n * sizeof(X) > 16) {
    constexpr std::make_index_sequence<n / 2> kHalf;
    return largest_lane<X, n / 2>(
        larger_lanes(moved_lanes<0>(v, kHalf), moved_lanes<n / 2>(v, kHalf)));
#if defined(__SSE4_1__)
  } else if constexpr (sizeof(X) == 2) {
    const __m128i least = _mm_minpos_epu16(__m128i(~v));
    return static_cast<X>(~_mm_cvtsi128_si32(least));
#endif
  } else if constexpr (distance > 0) {
    return largest_lane<X, n, distance / 2>(
        larger_lanes(v, moved_lanes<distance>(v, std::make_index_sequence<n>())));
  } else {
    return v[0];
  }
}

template <class V>
TERSE_INLINE bool has_zero_lane(V v) {
#if defined(__AVX512BW__)
  if constexpr (sizeof(v[0]) == 2) return _mm512_testn_epi16_mask(__m512i(v), __m512i(v)) != 0;
  return _mm512_testn_epi32_mask(__m512i(v), __m512i(v)) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_epi8(__m256i(v == 0)) != 0;
#elif defined(__SSE2__)
  return _mm_movemask_epi8(__m128i(v == 0)) != 0;
#else
  return largest_lane<uint64_t, kLanes>(Lanes(v == 0)) != 0;
#endif
}

// Finds the extent by integer comparisons. Among signed integers the max is the max number if one
// has no sign; among unsigned ones the max is the min number if one has a sign. NaN is outermost.
template <class T, std::derived_from<Extent> Stats>
TERSE_INLINE void stats(const void* in, size_t n, Stats& result) {
  using Signed = Integer<T>;
  using Unsigned = std::make_unsigned_t<Signed>;
  constexpr size_t kWidth = kRegisterBytes / sizeof(T);
  using Numbers = Vector<Signed, kWidth>;
  using Bits = Vector<Unsigned, kWidth>;
  constexpr Unsigned kSign = static_cast<Unsigned>(~kMagnitude<T>);
  Numbers highest = Numbers{} + static_cast<Signed>(kSign);
  Bits lowest{}, least = Bits{} + static_cast<Unsigned>(kMagnitude<T>);
  const auto observe_some = [&](const void* some) {
    const Numbers x = read<Numbers>(some, 0);
    const Bits bits = Bits(x), magnitude = bits & static_cast<Unsigned>(kMagnitude<T>);
    highest = larger_lanes(x, highest);
    lowest = larger_lanes(bits, lowest);
    least = magnitude < least ? magnitude : least;
  };
  const char* const bytes = static_cast<const char*>(in);
  size_t i = 0;
  for (; i + kWidth <= n; i += kWidth) observe_some(bytes + i * sizeof(T));
  if (i < n) {
    Signed rest[kWidth];
    for (size_t k = 0; k < kWidth; ++k) rest[k] = read<Signed>(in, i + k < n ? i + k : i);
    observe_some(rest);
  }
  const Unsigned low = largest_lane<Unsigned, kWidth>(lowest);
  const Unsigned high = largest_lane<Unsigned, kWidth>(Bits(highest) ^ kSign) ^ kSign;
  const auto number = [](Unsigned end) { return as_float<T>(static_cast<Signed>(end)); };
  bool zero;
  if ((low & kSign) != 0 && (high & kSign) == 0) {
    zero = has_zero_lane(least);
    result.low = number(low), result.high = number(high);
  } else {
    const Unsigned magnitude = ~largest_lane<Unsigned, kWidth>(~least);
    zero = magnitude == 0;
    result.low = number((low & kSign) != 0 ? low : magnitude);
    result.high = number((high & kSign) == 0 ? high : magnitude | kSign);
  }
  if constexpr (requires { result.zero; }) result.zero = zero ? 0.0f : 1.0f;
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
