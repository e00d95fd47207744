#include "reduce_kernels.h"

#include <stdint.h>

#ifdef __F16C__
#include <immintrin.h>
#endif

#ifndef HOSTNCCL_KERNELS
#define HOSTNCCL_KERNELS kKernelsBaseline
#endif

namespace hostnccl {
namespace {

// ---- Element types: how a value is stored, and in what type it is computed ----

// Buffers of NCCL calls may lie anywhere.
template <class T>
using Unaligned [[gnu::aligned(1), gnu::may_alias]] = T;

inline uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
inline float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Integers compare as they are and compute modulo 2^n, as the hardware does.
template <class T, class U>
struct Integer {
  using Stored = T;
  using Value = T;
  static constexpr bool kIsFloat = false;
  static T load(T stored) { return stored; }
  static T store(T value) { return value; }
  // The wide type keeps the promotion of small integers from overflowing an int.
  static T add(T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }
  static T multiply(T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); }
};

template <class T>
struct Native {
  using Stored = T;
  using Value = T;
  static constexpr bool kIsFloat = true;
  static T load(T stored) { return stored; }
  static T store(T value) { return value; }
  static T add(T a, T b) { return a + b; }
  static T multiply(T a, T b) { return a * b; }
};

struct ComputedInFloat {
  using Value = float;
  static constexpr bool kIsFloat = true;
  static float add(float a, float b) { return a + b; }
  static float multiply(float a, float b) { return a * b; }
};

struct BFloat16 : ComputedInFloat {
  using Stored = uint16_t;
  static float load(Stored stored) { return from_bits(static_cast<uint32_t>(stored) << 16); }
  static Stored store(float value) {
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    const uint32_t quiet_nan = (bits >> 16) | 0x40;
    return static_cast<Stored>((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
  }
};

// A float narrower than float's exponent. finite: no infinities, and the all-ones code alone is
// NaN (OCP e4m3fn); what is too large becomes NaN there and infinity elsewhere, never a finite lie.
// No branches and no subnormal intermediates, so that loops vectorise and run at one speed.
template <class StoredType, int exponent_bits, int mantissa_bits, bool finite>
struct Narrow : ComputedInFloat {
  using Stored = StoredType;
  static constexpr int kShift = 23 - mantissa_bits;
  static constexpr int kSignShift = 31 - exponent_bits - mantissa_bits;
  static constexpr uint32_t kMagnitude = (1u << (exponent_bits + mantissa_bits)) - 1;
  static constexpr uint32_t kBiasGap = 127 - ((1u << (exponent_bits - 1)) - 1);
  static constexpr uint32_t kInfinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  static constexpr uint32_t kNan = finite ? kMagnitude : kInfinity | (1u << (mantissa_bits - 1));
  static constexpr uint32_t kOverflow = finite ? kNan : kInfinity;
  static constexpr uint32_t kFirstSpecial = finite ? kNan : kInfinity;
  static constexpr uint32_t kMinNormal = (kBiasGap + 1) << 23;  // as a float

  static float load(Stored stored) {
    const uint32_t code = stored & kMagnitude;
    const uint32_t shifted = code << kShift;
    const uint32_t normal = shifted + (kBiasGap << 23);
    const uint32_t subnormal = bits_of(from_bits(shifted + kMinNormal) - from_bits(kMinNormal));
    const uint32_t special = 0x7f800000 | (code == kInfinity && !finite ? 0 : 0x400000);
    uint32_t bits = code < (1u << mantissa_bits) ? subnormal : normal;
    bits = code >= kFirstSpecial ? special : bits;
    return from_bits(bits | (static_cast<uint32_t>(stored) & (kMagnitude + 1)) << kSignShift);
  }

  static Stored store(float value) {
    const uint32_t sign = bits_of(value) & 0x80000000;
    const uint32_t magnitude = bits_of(value) ^ sign;
    // Adding this power of two makes the float unit round at our last place.
    const uint32_t aligner = (kBiasGap + kShift + 1) << 23;
    const uint32_t subnormal = bits_of(from_bits(magnitude) + from_bits(aligner)) - aligner;
    const uint32_t half = (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1);
    const uint32_t normal = (magnitude - (kBiasGap << 23) + half) >> kShift;
    uint32_t code = magnitude < kMinNormal ? subnormal : normal;
    code = magnitude >= kMinNormal && normal >= kFirstSpecial ? kOverflow : code;
    code = magnitude > 0x7f800000 ? kNan : code;
    return static_cast<Stored>(code | sign >> kSignShift);
  }
};

#ifdef __F16C__
// The hardware converts, eight at a time; the compiler would not see it by itself.
struct Float16 : Narrow<uint16_t, 5, 10, false> {
  static constexpr size_t kLanes = 8;
  static void load_lanes(const void* from, float* to) {
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
  // Stores one NaN, as Narrow's: the bits must not depend on which of the two ran.
  static void store_lanes(const float* from, void* to) {
    const __m256 value = _mm256_loadu_ps(from);
    const __m256 nan = _mm256_or_ps(_mm256_and_ps(value, _mm256_set1_ps(-0.0f)),
                                    _mm256_set1_ps(__builtin_nanf("")));
    const __m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    _mm_storeu_si128(static_cast<__m128i*>(to),
                     _mm256_cvtps_ph(_mm256_blendv_ps(value, nan, is_nan),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};
#else
using Float16 = Narrow<uint16_t, 5, 10, false>;
#endif
using Float8E4M3 = Narrow<uint8_t, 4, 3, true>;
using Float8E5M2 = Narrow<uint8_t, 5, 2, false>;

// ---- Operators ----

struct Sum {
  template <class T>
  static auto apply(typename T::Value a, typename T::Value b) {
    return T::add(a, b);
  }
};
struct Product {
  template <class T>
  static auto apply(typename T::Value a, typename T::Value b) {
    return T::multiply(a, b);
  }
};
// A NaN on either side wins: a != a holds for nothing else.
struct Maximum {
  template <class T>
  static auto apply(typename T::Value a, typename T::Value b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};
struct Minimum {
  template <class T>
  static auto apply(typename T::Value a, typename T::Value b) {
    return ((a < b) | (a != a)) ? a : b;
  }
};

// ---- Loops ----

template <class T, class Operator>
void combine(void* dst, const void* a, const void* b, size_t count) {
  auto* to = static_cast<Unaligned<typename T::Stored>*>(dst);
  const auto* x = static_cast<const Unaligned<typename T::Stored>*>(a);
  const auto* y = static_cast<const Unaligned<typename T::Stored>*>(b);
  size_t i = 0;
  if constexpr (requires { T::kLanes; }) {
    for (; i + T::kLanes <= count; i += T::kLanes) {
      float left[T::kLanes], right[T::kLanes];
      T::load_lanes(x + i, left);
      T::load_lanes(y + i, right);
      for (size_t lane = 0; lane < T::kLanes; ++lane) {
        left[lane] = Operator::template apply<T>(left[lane], right[lane]);
      }
      T::store_lanes(left, to + i);
    }
  }
#pragma GCC ivdep  // dst is a, or b, or apart from both
  for (; i < count; ++i) {
    to[i] = T::store(Operator::template apply<T>(T::load(x[i]), T::load(y[i])));
  }
}

template <class T>
void scale(void* dst, const void* src, const void* scalar, size_t count) {
  auto* to = static_cast<Unaligned<typename T::Stored>*>(dst);
  const auto* from = static_cast<const Unaligned<typename T::Stored>*>(src);
  const auto factor = T::load(*static_cast<const Unaligned<typename T::Stored>*>(scalar));
#pragma GCC ivdep
  for (size_t i = 0; i < count; ++i) to[i] = T::store(T::multiply(T::load(from[i]), factor));
}

template <class T>
void divide(void* data, int divisor, size_t count) {
  // Divides in 64 bits of the same signedness: the divisor need not fit the type.
  constexpr bool kSigned = static_cast<T>(-1) < static_cast<T>(0);
  using Wide = decltype([] {
    if constexpr (kSigned)
      return int64_t{};
    else
      return uint64_t{};
  }());
  auto* values = static_cast<Unaligned<T>*>(data);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<Wide>(values[i]) / static_cast<Wide>(divisor));
  }
}

template <class T>
void reciprocal(void* scalar, int divisor) {
  using Value = typename T::Value;
  *static_cast<Unaligned<typename T::Stored>*>(scalar) =
      T::store(Value{1} / static_cast<Value>(divisor));
}

// ---- The table ----

template <class T>
constexpr void fill(Kernels& table, int type) {
  table.combine[type][0] = &combine<T, Sum>;
  table.combine[type][1] = &combine<T, Product>;
  table.combine[type][2] = &combine<T, Maximum>;
  table.combine[type][3] = &combine<T, Minimum>;
  table.scale[type] = &scale<T>;
  if constexpr (T::kIsFloat) {
    table.reciprocal[type] = &reciprocal<T>;
  } else {
    table.divide[type] = &divide<typename T::Stored>;
  }
}

template <class... Types>
constexpr Kernels make_table() {
  Kernels table{};
  int type = 0;
  (fill<Types>(table, type++), ...);
  return table;
}

}  // namespace

// Kernels in the order of ncclDataType_t.
extern const Kernels HOSTNCCL_KERNELS =
    make_table<Integer<int8_t, uint32_t>, Integer<uint8_t, uint32_t>, Integer<int32_t, uint32_t>,
               Integer<uint32_t, uint32_t>, Integer<int64_t, uint64_t>, Integer<uint64_t, uint64_t>,
               Float16, Native<float>, Native<double>, BFloat16, Float8E4M3, Float8E5M2>();

}  // namespace hostnccl
