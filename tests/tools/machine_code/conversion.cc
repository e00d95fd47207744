// Conversions between integers, numbers of 16, 32 and 64 bits, and small floats.
#include <bit>
#include <cmath>
#include <limits>

#include "arguments.h"
#include "numbers.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;

// A small float: sign, exponent, mantissa, from the top.
struct SmallFloat {
  int exponent_bits, mantissa_bits;
  bool has_infinity;  // its largest exponent is for infinity and NaNs; else all but NaN are numbers
  uint32_t nan;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t sign_bit() const { return 1u << (exponent_bits + mantissa_bits); }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  uint32_t largest() const { return has_infinity ? infinity() - 1 : nan - 1; }
};

constexpr SmallFloat kBinary16{5, 10, true, 0x7fff};
constexpr SmallFloat kBfloat{8, 7, true, 0x7fff};
constexpr SmallFloat kSmallE4M3{4, 3, false, 0x7f};
constexpr SmallFloat kSmallE5M2{5, 2, true, 0x7f};

// To the nearest one, of two equally near ones to the even one.
uint32_t encode(const SmallFloat& format, float x, bool saturates) {
  if (x != x) return format.nan;
  const uint32_t sign = std::signbit(x) ? format.sign_bit() : 0;
  const double size = std::fabs(static_cast<double>(x));
  const uint32_t over = saturates ? format.largest() : format.infinity();
  if (std::isinf(x)) return sign | over;
  if (size == 0) return sign;
  const int exponent = std::max(std::ilogb(size), 1 - format.bias());
  const auto steps =
      static_cast<uint32_t>(std::nearbyint(std::ldexp(size, format.mantissa_bits - exponent)));
  // A carry out of the mantissa goes into the exponent.
  const int64_t bits = (int64_t{exponent + format.bias() - 1} << format.mantissa_bits) + steps;
  return sign | (bits > format.largest() ? over : static_cast<uint32_t>(bits));
}

float decode(const SmallFloat& format, uint32_t bits) {
  const uint32_t size = bits & (format.sign_bit() - 1);
  const bool nan = format.has_infinity ? size > format.infinity() : size == format.nan;
  if (nan) return nan_of_arithmetic<float>();
  const int exponent = static_cast<int>(size >> format.mantissa_bits);
  const uint32_t mantissa = size & ((1u << format.mantissa_bits) - 1);
  const int scale = std::max(exponent, 1) - format.bias() - format.mantissa_bits;
  const double value =
      format.has_infinity && size == format.infinity()
          ? INFINITY
          : std::ldexp(mantissa + (exponent > 0 ? 1u << format.mantissa_bits : 0), scale);
  return static_cast<float>(bits & format.sign_bit() ? -value : value);
}

// F2FP d, a, b: a above b.
template <const SmallFloat& format>
void pack_16(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<float> a = warp.real(in.next()), b = warp.real(in.next());
  in.end();
  warp.set(to,
           map([](float x,
                  float y) { return encode(format, x, false) << 16 | encode(format, y, false); },
               a, b));
}

// F2FP d, a, b, c: a and b as bytes, above them the lower half of c.
template <const SmallFloat& format>
void pack_8(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<float> a = warp.real(in.next()), b = warp.real(in.next());
  const Lanes<uint32_t> c = in.word();
  in.end();
  warp.set(to, map(
                   [](float x, float y, uint32_t z) {
                     return z << 16 | encode(format, x, true) << 8 | encode(format, y, true);
                   },
                   a, b, c));
}

// F2FP d, a: its lower two bytes as two halves; of a.H1 its upper two.
template <const SmallFloat& format>
void unpack_8(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  Operand from = in.next();
  in.end();
  const uint32_t shift = from.half == Half::kHigh ? 16 : 0;
  if (from.half == Half::kHigh) from.half = Half::kNone;
  const Lanes<uint32_t> a = map([=](uint32_t x) { return x >> shift; }, warp.unmarked(from));
  warp.set(to, map(
                   [](uint32_t x) {
                     const auto half = [](uint32_t byte) {
                       return encode(kBinary16, decode(format, byte), false);
                     };
                     return half(x >> 8 & 0xff) << 16 | half(x & 0xff);
                   },
                   a));
}

// A half as a number; a zero register needs not say which half of it.
Lanes<float> halves(const Warp& warp, const Operand& operand) {
  const bool zero = operand.kind == Kind::kRegister && operand.index == kZeroRegister;
  if (operand.half == Half::kNone && !zero) warp.fail("an operand is not known");
  const uint32_t shift = operand.half == Half::kHigh ? 16 : 0;
  return map(
      [&](uint32_t x) {
        const float value = decode(kBinary16, x >> shift & 0xffff);
        const float size = operand.absolute ? std::fabs(value) : value;
        return operand.negated ? -size : size;
      },
      warp.bits(operand));
}

// HADD2.F32 d, a, b: one of them is zero where a half is widened.
void add_halves(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<float> a = halves(warp, in.next()), b = halves(warp, in.next());
  in.end();
  warp.set(to, map(
                   [](float x, float y) {
                     const float sum = x + y;
                     return sum != sum ? nan_of_arithmetic<float>() : sum;
                   },
                   a, b));
}

// HFMA2 d, -RZ, RZ, a, b: two halves that are numbers.
void two_halves(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  for (int i = 0; i < 2; ++i)
    if (in.next().index != kZeroRegister) warp.fail("an operand is not known");
  const Operand &a = in.next(), &b = in.next();
  in.end();
  if (a.kind != Kind::kReal || b.kind != Kind::kReal) warp.fail("an operand is not known");
  const auto half = [](const Operand& x) {
    return encode(kBinary16, static_cast<float>(x.real), false);
  };
  warp.set(to, all_lanes(half(a) << 16 | half(b)));
}

// An integer of the type that the instruction names.
Lanes<int64_t> integers(Warp& warp, const Instruction& of, const Operand& operand) {
  if (of.has(kS64))
    return map([](uint64_t x) { return static_cast<int64_t>(x); }, warp.wide(operand));
  const bool is_unsigned = of.has(kU32) || of.has(kU16) || of.has(kU8);
  const uint32_t mask = of.has(kU16) ? 0xffff : of.has(kU8) ? 0xff : ~0u;
  return map(
      [=](uint32_t x) {
        return is_unsigned ? int64_t{x & mask} : int64_t{static_cast<int32_t>(x)};
      },
      warp.word(operand));
}

template <class To>
Lanes<To> from_integers(Warp& warp, const Instruction& of, const Operand& operand) {
  const bool is_wide = of.has(kU64) || of.has(kS64);
  if (is_wide && (of.has(kRZ) || of.has(kRP))) warp.fail("a rounding that is not known here");
  if (of.has(kU64)) return map([](uint64_t x) { return static_cast<To>(x); }, warp.wide(operand));
  const Lanes<int64_t> from = integers(warp, of, operand);
  const Rounding rounding(of);
  return map(
      [](int64_t x) {
        const volatile int64_t integer = x;
        const volatile auto number = static_cast<To>(integer);
        return static_cast<To>(number);
      },
      from);
}

template <class To>
void i2f(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Operand& from = in.next();
  in.end();
  warp.set(to, from_integers<To>(warp, of, from));
}

// Towards zero; what is out of range is the nearest integer that is not.
template <class From>
Lanes<uint32_t> truncated(const Lanes<From>& values, uint32_t of_nan) {
  return map(
      [=](From x) {
        if (x != x) return of_nan;
        if (!(x > 0)) return 0u;
        if (x >= static_cast<From>(0x1p32)) return ~0u;
        return static_cast<uint32_t>(x);
      },
      values);
}

template <class From, uint32_t of_nan>
void f2i_u32(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<From> from = in.get<From>();
  in.end();
  warp.set(to, truncated(from, of_nan));
}

void widen(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<float> from = warp.real(in.next());
  in.end();
  warp.set(to, map([](float x) { return double{x}; }, from));
}

void narrow(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<double> from = warp.real64(in.next());
  in.end();
  warp.set(to,
           map([](double x) { return x != x ? nan_of_arithmetic<float>() : static_cast<float>(x); },
               from));
}

}  // namespace

std::span<const Rule> conversion_rules() {
  static constexpr Rule kRules[] = {
      {"F2FP.BF16.F32.PACK_AB", {}, pack_16<kBfloat>},
      {"F2FP.F16.F32.PACK_AB", {}, pack_16<kBinary16>},
      {"F2FP.SATFINITE.E4M3.F32.PACK_AB_MERGE_C", {}, pack_8<kSmallE4M3>},
      {"F2FP.SATFINITE.E5M2.F32.PACK_AB_MERGE_C", {}, pack_8<kSmallE5M2>},
      {"F2FP.F16.E4M3.UNPACK_B", {}, unpack_8<kSmallE4M3>},
      {"F2FP.F16.E5M2.UNPACK_B", {}, unpack_8<kSmallE5M2>},
      {"HADD2.F32", {}, add_halves},
      {"HFMA2", {kMMA}, two_halves},
      {"I2F", {kU8, kU16, kU32, kS32, kU64, kS64, kRZ, kRP}, i2f<float>},
      {"I2F.F64", {kU32, kS32, kU64, kS64}, i2f<double>},
      {"I2FP.F32", {kU32, kS32}, i2f<float>},
      {"F2I.U32.TRUNC.NTZ", {}, f2i_u32<float, 0>},
      {"F2I.FTZ.U32.TRUNC.NTZ", {}, f2i_u32<float, 0>},
      {"F2I.U32.F64.TRUNC", {}, f2i_u32<double, 0x80000000>},
      {"F2F.F64.F32", {}, widen},
      {"F2F.F32.F64", {}, narrow},
  };
  return kRules;
}

}  // namespace terse::machine
