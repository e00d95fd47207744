// A part of host_ops.cc: searches of a table of numbers and look-ups in it, in registers where the
// machine shuffles them.
#pragma once

#include <algorithm>
#include <bit>

#include "codec/codebook.h"
#include "codec/host/elements.h"
#include "codec/host/hadamard.h"
#include "codec/host/registers.h"

namespace terse::codec::TERSE_ISA {
namespace {

// Looks up eight codes in a table that registers do not hold. (Eight loads take less time than a
// gather of AVX2.)
template <class Entry>
struct Eight {
  using Vector [[gnu::vector_size(8 * sizeof(Entry))]] = Entry;

  static TERSE_INLINE Vector of(const Entry* table, const uint8_t* codes) {
    const auto at = [&](size_t k) { return table[codes[k]]; };
    return Vector{at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)};
  }
};

TERSE_INLINE size_t look_up_memory(const uint16_t* halves, const uint8_t* codes, size_t count,
                                   void* out) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto eight = Eight<uint16_t>::of(halves, codes + i);
    std::memcpy(static_cast<char*>(out) + i * sizeof(uint16_t), &eight, sizeof eight);
  }
  return i;
}

#if defined(__AVX2__)
using Indices [[gnu::vector_size(kRegisterBytes)]] = int32_t;

// Looks up each index among the register's numbers; ignores its high bits.
TERSE_INLINE Register permute(Register numbers, Indices at) {
#if defined(__AVX512F__)
  return Register(_mm512_permutexvar_ps(__m512i(at), __m512(numbers)));
#else
  return Register(_mm256_permutevar8x32_ps(__m256(numbers), __m256i(at)));
#endif
}

TERSE_INLINE Register permute(Register first, Register second, Indices at) {
#if defined(__AVX512F__)
  return Register(_mm512_permutex2var_ps(__m512(first), __m512i(at), __m512(second)));
#else
  return (at & static_cast<int32_t>(kRegister)) != 0 ? permute(second, at) : permute(first, at);
#endif
}

TERSE_INLINE Register gather(const float* numbers, Indices at) {
#if defined(__AVX512F__)
  return Register(_mm512_i32gather_ps(__m512i(at), numbers, 4));
#else
  return Register(_mm256_i32gather_ps(numbers, __m256i(at), 4));
#endif
}

// Compilers' own conversions of vectors go element by element.
TERSE_INLINE Indices load_indices(const uint8_t* codes) {
#if defined(__AVX512F__)
  return Indices(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))));
#else
  return Indices(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes))));
#endif
}

TERSE_INLINE Register gather(const float* numbers, const uint8_t* codes) {
#if defined(__AVX512F__)
  return gather(numbers, load_indices(codes));
#else
  return Eight<float>::of(numbers, codes);
#endif
}

// n numbers: as many as registers hold, or fewer than one does.
template <size_t n>
class InRegisters {
 public:
  TERSE_INLINE explicit InRegisters(const float* numbers) {
    if constexpr (n < kRegister) {
      part_[0] = Register{};
      std::memcpy(part_, numbers, n * sizeof(float));
    } else {
      std::memcpy(part_, numbers, sizeof part_);
    }
  }

  TERSE_INLINE Register at(Indices i) const { return among<0, kParts>(i); }
  TERSE_INLINE Register of(const uint8_t* codes) const { return at(load_indices(codes)); }

 private:
  static constexpr size_t kParts = n <= kRegister ? 1 : n / kRegister;

  template <size_t first, size_t parts>
  TERSE_INLINE Register among(Indices i) const {
    if constexpr (parts == 1) {
      return permute(part_[first], i);
    } else if constexpr (parts == 2) {
      return permute(part_[first], part_[first + 1], i);
    } else {
      constexpr size_t kHalf = parts / 2;
      const Indices upper = i & static_cast<int32_t>(kHalf * kRegister);
      return upper != 0 ? among<first + kHalf, kHalf>(i) : among<first, kHalf>(i);
    }
  }

  Register part_[kParts];
};

// More of them than registers can hold.
class Gathered {
 public:
  TERSE_INLINE explicit Gathered(const float* numbers) : numbers_(numbers) {}
  TERSE_INLINE Register at(Indices i) const { return gather(numbers_, i); }
  TERSE_INLINE Register of(const uint8_t* codes) const { return gather(numbers_, codes); }

 private:
  const float* const numbers_;
};

// Max numbers that registers hold: AVX-512 has twice as many registers of twice the size.
constexpr size_t kMaxInRegisters = kRegisterBytes == 64 ? 256 : 32;

template <size_t n>
using Numbers = std::conditional_t<(n <= kMaxInRegisters), InRegisters<n>, Gathered>;

// Stores as many low bits of each number as the second argument's type has.
TERSE_INLINE void store_low(Indices x, int32_t, void* to) { std::memcpy(to, &x, sizeof x); }

TERSE_INLINE void store_low(Indices x, int16_t, void* to) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtepi32_epi16(__m512i(x)));
#else
  const __m256i low = _mm256_and_si256(__m256i(x), _mm256_set1_epi32(0xffff));
  const __m256i packed = _mm256_packus_epi32(low, low);
  _mm_storeu_si128(static_cast<__m128i*>(to),
                   _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
#endif
}

TERSE_INLINE void store_low(Indices x, uint8_t, void* to) {
#if defined(__AVX512F__)
  _mm_storeu_si128(static_cast<__m128i*>(to), _mm512_cvtepi32_epi8(__m512i(x)));
#else
  int16_t halves[kRegister];
  store_low(x, int16_t{}, halves);
  const __m128i in = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
  _mm_storel_epi64(static_cast<__m128i*>(to), _mm_packus_epi16(in, in));
#endif
}

// Searches n ascending numbers: first every kApart-th of them, then those between two.
template <size_t n>
class Search {
 public:
  TERSE_INLINE explicit Search(const float* numbers)
      : coarse_(thinned(numbers).at), all_(numbers) {}

  // Finds count_not_above() of each v. Returns for how many it did so.
  TERSE_INLINE size_t find(const float* v, size_t count, uint8_t* codes) const {
    size_t i = 0;
    for (; i + kRegister <= count; i += kRegister) {
      Register x;
      std::memcpy(&x, v + i, sizeof x);
      store_low(count_not_above(x), uint8_t{}, codes + i);
    }
    return i;
  }

 private:
  static constexpr size_t kCoarse = n < 2 * kRegister ? n : 2 * kRegister, kApart = n / kCoarse;

  struct Coarse {
    float at[kCoarse];
  };

  TERSE_INLINE static Coarse thinned(const float* numbers) {
    Coarse coarse;
    for (size_t i = 0; i < kCoarse; ++i) coarse.at[i] = numbers[i * kApart];
    return coarse;
  }

  TERSE_INLINE Indices count_not_above(Register v) const {
    Indices count{};
    for (size_t step = kCoarse / 2; step > 0; step /= 2)
      count += (v >= coarse_.at(count + static_cast<int32_t>(step))) & static_cast<int32_t>(step);
    if constexpr (kApart > 1) count *= static_cast<int32_t>(kApart);
    for (size_t step = kApart / 2; step > 0; step /= 2)
      count += (v >= all_.at(count + static_cast<int32_t>(step))) & static_cast<int32_t>(step);
    return count;
  }

  const InRegisters<kCoarse> coarse_;
  const Numbers<n> all_;
};

// Shows the numbers of a register's codes after another, and the place of the first. How many codes
// that is done for.
template <size_t n, class See>
TERSE_INLINE size_t look_up(const float* numbers, const uint8_t* codes, size_t count,
                            const See& see) {
  const Numbers<n> table(numbers);
  size_t i = 0;
  for (; i + kRegister <= count; i += kRegister) see(i, table.of(codes + i));
  return i;
}

// Looks up each code's number, of which it stores as many low bits as T has.
template <size_t n, class T>
TERSE_INLINE size_t look_up_registers(const float* numbers, const uint8_t* codes, size_t count,
                                      void* out) {
  return look_up<n>(numbers, codes, count, [&](size_t i, Register x) {
    store_low(Indices(x), T{}, static_cast<char*>(out) + i * sizeof(T));
  });
}

template <size_t n>
TERSE_INLINE size_t look_up_add_registers(const float* numbers, const uint8_t* codes, size_t count,
                                          void* sums) {
  return look_up<n>(numbers, codes, count, [&](size_t i, Register x) {
    char* const at = static_cast<char*>(sums) + i * sizeof(float);
    Register sum;
    std::memcpy(&sum, at, sizeof sum);
    sum += x;
    std::memcpy(at, &sum, sizeof sum);
  });
}
#else
template <size_t n>
struct Search {
  TERSE_INLINE explicit Search(const float*) {}
  TERSE_INLINE size_t find(const float*, size_t, uint8_t*) const { return 0; }
};

template <size_t n, class See>
TERSE_INLINE size_t look_up(const float*, const uint8_t*, size_t, const See&) {
  return 0;
}
template <size_t n, class T>
TERSE_INLINE size_t look_up_registers(const float*, const uint8_t*, size_t, void*) {
  return 0;
}
template <size_t n>
TERSE_INLINE size_t look_up_add_registers(const float*, const uint8_t*, size_t, void*) {
  return 0;
}
#endif

// Looks up each code's half: for tables of some sizes, of which registers hold twice as many.
#if defined(__AVX512BW__)
template <size_t n>
constexpr bool kLooksUpHalves = n >= 16;

constexpr size_t kHalves = kRegisterBytes / sizeof(uint16_t);

template <size_t n>
class HalvesInRegisters {
 public:
  TERSE_INLINE explicit HalvesInRegisters(const uint16_t* halves) {
    if constexpr (n == 16)
      part_[0] =
          _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves)));
    else
      std::memcpy(part_, halves, sizeof part_);
  }

  TERSE_INLINE __m512i at(__m512i i) const { return among<0, kParts>(i); }

 private:
  static constexpr size_t kParts = n <= kHalves ? 1 : n / kHalves;

  template <size_t first, size_t parts>
  TERSE_INLINE __m512i among(__m512i i) const {
    if constexpr (parts == 1) {
      return _mm512_permutexvar_epi16(i, part_[first]);
    } else if constexpr (parts == 2) {
      return _mm512_permutex2var_epi16(part_[first], i, part_[first + 1]);
    } else {
      constexpr size_t kHalf = parts / 2;
      const __mmask32 upper = _mm512_test_epi16_mask(i, _mm512_set1_epi16(kHalf * kHalves));
      return _mm512_mask_blend_epi16(upper, among<first, kHalf>(i), among<first + kHalf, kHalf>(i));
    }
  }

  __m512i part_[kParts];
};

template <size_t n>
TERSE_INLINE size_t look_up_halves(const uint16_t* halves, const uint8_t* codes, size_t count,
                                   void* out) {
  const HalvesInRegisters<n> table(halves);
  size_t i = 0;
  for (; i + kHalves <= count; i += kHalves) {
    const auto at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    _mm512_storeu_si512(static_cast<char*>(out) + i * sizeof(uint16_t),
                        table.at(_mm512_cvtepu8_epi16(at)));
  }
  return i;
}
#elif defined(__AVX2__)
template <size_t n>
constexpr bool kLooksUpHalves = n <= 128;  // more are sooner loaded than shuffled

// Takes one byte of each half. A register has 16 of them in each of its lanes.
template <size_t n>
class BytesInRegisters {
 public:
  TERSE_INLINE BytesInRegisters(const uint16_t* halves, int byte) {
    for (size_t k = 0; k < kParts; ++k) {
      __m256i part{};
      std::memcpy(&part, halves + k * kPart, std::min(n, kPart) * sizeof(uint16_t));
      const __m256i bytes =
          _mm256_and_si256(_mm256_srli_epi16(part, 8 * byte), _mm256_set1_epi16(0xff));
      part_[k] = _mm256_permute4x64_epi64(_mm256_packus_epi16(bytes, bytes), 0x88);
    }
  }

  TERSE_INLINE __m256i of(__m256i codes) const {
    return among<0, kParts>(codes, _mm256_and_si256(codes, _mm256_set1_epi8(kPart - 1)));
  }

 private:
  static constexpr size_t kPart = 16, kParts = n <= kPart ? 1 : n / kPart;

  template <size_t first, size_t parts>
  TERSE_INLINE __m256i among(__m256i codes, __m256i at) const {
    if constexpr (parts == 1) {
      return _mm256_shuffle_epi8(part_[first], at);
    } else {
      constexpr size_t kHalf = parts / 2;
      constexpr int kToSign = 7 - std::countr_zero(kHalf * kPart);
      return _mm256_blendv_epi8(among<first, kHalf>(codes, at),
                                among<first + kHalf, kHalf>(codes, at),
                                _mm256_slli_epi16(codes, kToSign));
    }
  }

  __m256i part_[kParts];
};

template <size_t n>
TERSE_INLINE size_t look_up_halves(const uint16_t* halves, const uint8_t* codes, size_t count,
                                   void* out) {
  if constexpr (!kLooksUpHalves<n>) {
    return look_up_memory(halves, codes, count, out);
  }
  const BytesInRegisters<n> lower(halves, 0), upper(halves, 1);
  size_t i = 0;
  for (; i + kRegisterBytes <= count; i += kRegisterBytes) {
    const auto codes_of_lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    const __m256i at = _mm256_permute4x64_epi64(codes_of_lanes, 0xd8);  // of lanes, alternately
    const __m256i low = lower.of(at), high = upper.of(at);
    const auto to = reinterpret_cast<__m256i*>(static_cast<char*>(out) + i * sizeof(uint16_t));
    _mm256_storeu_si256(to, _mm256_unpacklo_epi8(low, high));
    _mm256_storeu_si256(to + 1, _mm256_unpackhi_epi8(low, high));
  }
  return i;
}
#else
template <size_t n>
constexpr bool kLooksUpHalves = false;

template <size_t n>
TERSE_INLINE size_t look_up_halves(const uint16_t* halves, const uint8_t* codes, size_t count,
                                   void* out) {
  return look_up_memory(halves, codes, count, out);
}
#endif

}  // namespace
}  // namespace terse::codec::TERSE_ISA
