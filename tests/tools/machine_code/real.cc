// Arithmetic on numbers of 32 and of 64 bits.
#include <array>
#include <bit>
#include <cmath>

#include "arguments.h"
#include "block.h"
#include "numbers.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;
using Reals = Lanes<float>;

bool is_nan(float x) { return x != x; }

// Hides the value from the compiler's constant folding.
template <class T>
T opaque(T x) {
  volatile T y = x;
  return y;
}

template <class T>
T flushed_if(bool flushes, T x) {
  if constexpr (sizeof(T) == sizeof(float)) return flushes ? flushed(x) : x;
  return x;
}

// d = f(operands), by the instruction's rounding, FTZ and NaN.
template <class T, auto f, size_t operands>
void arithmetic(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  std::array<Lanes<T>, operands> x;
  for (Lanes<T>& lanes : x) lanes = in.get<T>();
  in.end();
  const bool flushes = of.has(kFTZ);
  const Rounding rounding(of);
  Lanes<T> value;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const auto of_lane = [&](size_t i) { return opaque(flushed_if(flushes, x[i][lane])); };
    // volatile: the compiler must not move it past the change of mode.
    volatile T y;
    if constexpr (operands == 2) {
      y = f(of_lane(0), of_lane(1));
    } else {
      y = f(of_lane(0), of_lane(1), of_lane(2));
    }
    value[lane] = y != y ? nan_of_arithmetic<T>() : flushed_if<T>(flushes, y);
  }
  warp.set(to, value);
}

template <class T>
constexpr auto kAdd = [](T x, T y) { return x + y; };
template <class T>
constexpr auto kMultiply = [](T x, T y) { return x * y; };
template <class T>
constexpr auto kMultiplyAndAdd = [](T x, T y, T z) { return std::fma(x, y, z); };

// -0 is smaller than 0. Of a number and a NaN it is the number, or with NAN the NaN.
void fmnmx(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next()), b = warp.real(in.next());
  const Mask smaller = in.predicate();
  in.end();
  const bool nan = of.has(kNAN);
  Reals value;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const float x = a[lane], y = b[lane];
    const bool less = x < y || (x == y && std::signbit(x));
    const bool first = less == ((smaller & bit(lane)) != 0);
    value[lane] = is_nan(x) && is_nan(y)   ? nan_of_arithmetic<float>()
                  : is_nan(x) || is_nan(y) ? nan         ? nan_of_arithmetic<float>()
                                             : is_nan(x) ? y
                                                         : x
                  : first                  ? x
                                           : y;
  }
  warp.set(to, value);
}

// One step of the last place to either side: what a GPU's approximation may be. It is the same for
// a number in all lanes: some results go to uniform registers.
float about(float x, uint32_t draw) {
  if (!std::isnormal(x)) return x;
  return draw == 0 ? std::nextafter(x, -INFINITY) : draw == 1 ? std::nextafter(x, INFINITY) : x;
}

// Returns true if a division's steps from an approximation end in the quotient only where that is
// the nearest one (Markstein 1990): as divisions are right on GPUs, theirs must be.
bool has_ones_alone(float x) {
  constexpr uint32_t kMantissa = 0x7fffff;
  return (std::bit_cast<uint32_t>(x) & kMantissa) == kMantissa;
}

void mufu_rcp(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next());
  in.end();
  warp.set(to, map(
                   [&](float x) {
                     if (is_nan(x)) return nan_of_arithmetic<float>();
                     const float nearest = flushed(1 / flushed(x));
                     const uint32_t draw = warp.block().draw_for(std::bit_cast<uint32_t>(x), 3);
                     return has_ones_alone(x) ? nearest : about(nearest, draw);
                   },
                   a));
}

void mufu_rsq(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next());
  in.end();
  for (const float x : a)
    if (!is_nan(x)) warp.fail("the root of a number is not known");  // how a NaN is made
  warp.set(to, all_lanes(nan_of_arithmetic<float>()));
}

// Whether a quotient needs more than the reciprocal and some steps of Newton.
void fchk(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next()), b = warp.real(in.next());
  in.end();
  warp.set_predicate(to, where(
                             [](float x, float y) {
                               const auto exponent = [](float z) {
                                 return static_cast<int>(std::bit_cast<uint32_t>(z) >> 23 & 0xff);
                               };
                               const int over = exponent(x), under = exponent(y);
                               return over <= 24 || over == 255 || under == 0 || under >= 253 ||
                                      over - under >= 126 || under - over >= 125;
                             },
                             a, b));
}

// Takes and gives the upper word of a double, whose lower word counts as zero. A GPU's
// approximation may be one step off.
void mufu_rcp64h(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<uint32_t> a = in.word();
  in.end();
  warp.set(to, map(
                   [&](uint32_t x) {
                     const auto value = std::bit_cast<double>(uint64_t{x} << 32);
                     const auto exact =
                         static_cast<uint32_t>(std::bit_cast<uint64_t>(1 / value) >> 32);
                     if (!std::isnormal(1 / value)) return exact;
                     return exact + warp.block().draw_for(x, 3) - 1;
                   },
                   a));
}

}  // namespace

std::span<const Rule> real_rules() {
  static constexpr Modifiers kOf32{kFTZ, kRM, kRP, kRZ};
  static constexpr Rule kRules[] = {
      {"FADD", kOf32, arithmetic<float, kAdd<float>, 2>},
      {"FMUL", kOf32, arithmetic<float, kMultiply<float>, 2>},
      {"FFMA", kOf32, arithmetic<float, kMultiplyAndAdd<float>, 3>},
      {"DADD", {}, arithmetic<double, kAdd<double>, 2>},
      {"DMUL", {kRP}, arithmetic<double, kMultiply<double>, 2>},
      {"DFMA", {}, arithmetic<double, kMultiplyAndAdd<double>, 3>},
      {"FMNMX", {kNAN}, fmnmx},
      {"MUFU.RCP", {}, mufu_rcp},
      {"MUFU.RCP64H", {}, mufu_rcp64h},
      {"MUFU.RSQ", {}, mufu_rsq},
      {"FCHK", {}, fchk},
  };
  return kRules;
}

}  // namespace terse::machine
