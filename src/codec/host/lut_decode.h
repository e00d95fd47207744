// A part of host_ops.cc: codes of few bits to elements, by the values of all codes there are.
#pragma once

#include <type_traits>

#include "codec/host/elements.h"
#include "codec/host/lut.h"

namespace terse::codec::TERSE_ISA {
namespace {

// More numbers are not worth looking up in registers.
constexpr size_t kMaxAsNumbers = 64;

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, int32_t, int16_t>;

// An element's bits, as the low ones of a number in a table, and back.
template <class T>
TERSE_INLINE float bits_in_table(T x) {
  return bits_float(static_cast<uint32_t>(__builtin_bit_cast(BitsOf<T>, x)));
}

template <class T, class Entry>
TERSE_INLINE T element_in_table(Entry entry) {
  using Bits = std::conditional_t<sizeof(Entry) == 4, uint32_t, uint16_t>;
  return __builtin_bit_cast(T, static_cast<BitsOf<T>>(__builtin_bit_cast(Bits, entry)));
}

// Calls see(k) for each code. (Compilers unroll short loops as a whole, and do not vectorise
// those.)
template <size_t count, class See>
TERSE_INLINE void for_each_code(const See& see) {
  if constexpr (count <= 16) {
#pragma GCC unroll 1
    for (size_t k = 0; k < count; ++k) see(k);
  } else {
    for (size_t k = 0; k < count; ++k) see(k);
  }
}

// Makes elements of type T of the values of `count` codes. Looks up halves if that handles twice as
// many at a time, or if there are too many for registers; else the low bits of numbers.
template <class T, bool accumulate, size_t count>
struct Values {
  static constexpr bool kHalves = !accumulate && sizeof(T) == sizeof(uint16_t) &&
                                  (kLooksUpHalves<count> || count > kMaxAsNumbers);
  using Entry = std::conditional_t<kHalves, uint16_t, float>;

  // The n values as entries, in `table` where they are others.
  static TERSE_INLINE const Entry* entries(const float* values, size_t n, Entry* table) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return values;
    } else if constexpr (!kHalves) {
      for (size_t k = 0; k < n; ++k) table[k] = bits_in_table(from_float<T>(values[k]));
    } else if constexpr (kConvertsHalves<T> || count > kMaxAsNumbers) {
      from_floats<T>(values, n, table);
    } else {
#pragma GCC unroll 1
      for (size_t k = 0; k < n; ++k)
        table[k] = __builtin_bit_cast(uint16_t, from_float<T>(values[k]));
    }
    return table;
  }

  static TERSE_INLINE void look_up(const Entry* table, const uint8_t* codes, size_t n, void* out) {
    size_t i = 0;
    if constexpr (kHalves)
      i = look_up_halves<count>(table, codes, n, out);
    else if constexpr (accumulate)
      i = look_up_add_registers<count>(table, codes, n, out);
    else
      i = look_up_registers<count, BitsOf<T>>(table, codes, n, out);
    for (; i < n; ++i) {
      const T x = element_in_table<T>(table[codes[i]]);
      if constexpr (accumulate)
        write(out, i, add(read<T>(out, i), x));
      else
        write(out, i, x);
    }
  }
};

}  // namespace
}  // namespace terse::codec::TERSE_ISA
