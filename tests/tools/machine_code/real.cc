// Arithmetic on numbers of 32 bits.
#include <bit>
#include <cfenv>
#include <cmath>

#include "arguments.h"
#include "block.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;
using Reals = Lanes<float>;

// Every NaN that arithmetic gives.
const float kNan = std::bit_cast<float>(0x7fffffffu);

bool is_nan(float x) { return x != x; }
float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// Sets the instruction's rounding mode during its lifetime.
class Rounding {
 public:
  explicit Rounding(const Instruction& of) {
    mode_ = of.has(kRM)   ? FE_DOWNWARD
            : of.has(kRP) ? FE_UPWARD
            : of.has(kRZ) ? FE_TOWARDZERO
                          : FE_TONEAREST;
    if (mode_ != FE_TONEAREST) std::fesetround(mode_);
  }
  ~Rounding() {
    if (mode_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
  }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  int mode_;
};

// f of each lane's operands, by the instruction's rounding, FTZ and NaN.
template <class F, class... X>
void compute(Warp& warp, const Instruction& of, const Operand& to, F f, const X&... x) {
  const bool flushes = of.has(kFTZ);
  const Rounding rounding(of);
  Reals value;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    // volatile: the compiler must not move it past the change of mode.
    volatile float y = f((flushes ? flushed(x[lane]) : x[lane])...);
    value[lane] = is_nan(y) ? kNan : flushes ? flushed(y) : y;
  }
  warp.set(to, value);
}

// Hides the value from the compiler's constant folding.
float opaque(float x) {
  volatile float y = x;
  return y;
}

void fadd(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next()), b = warp.real(in.next());
  in.end();
  compute(
      warp, of, to, [](float x, float y) { return opaque(x) + opaque(y); }, a, b);
}

void fmul(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next()), b = warp.real(in.next());
  in.end();
  compute(
      warp, of, to, [](float x, float y) { return opaque(x) * opaque(y); }, a, b);
}

void ffma(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next()), b = warp.real(in.next()), c = warp.real(in.next());
  in.end();
  compute(
      warp, of, to,
      [](float x, float y, float z) { return std::fma(opaque(x), opaque(y), opaque(z)); }, a, b, c);
}

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
    value[lane] = is_nan(x) && is_nan(y)   ? kNan
                  : is_nan(x) || is_nan(y) ? nan         ? kNan
                                             : is_nan(x) ? y
                                                         : x
                  : first                  ? x
                                           : y;
  }
  warp.set(to, value);
}

// One step of the last place to either side: what a GPU's approximation may be.
float about(float x, uint32_t draw) {
  if (!std::isnormal(x)) return x;
  return draw == 0 ? std::nextafter(x, -INFINITY) : draw == 1 ? std::nextafter(x, INFINITY) : x;
}

void mufu_rcp(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Reals a = warp.real(in.next());
  in.end();
  warp.set(to, map(
                   [&](float x) {
                     if (is_nan(x)) return kNan;
                     const float flat = flushed(x);
                     return about(flushed(1 / flat), warp.block().random().below(3));
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
  warp.set(to, all_lanes(kNan));
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

}  // namespace

std::span<const Rule> real_rules() {
  static constexpr Rule kRules[] = {
      {"FADD", {kFTZ, kRM, kRP, kRZ}, fadd},
      {"FMUL", {kFTZ, kRM, kRP, kRZ}, fmul},
      {"FFMA", {kFTZ, kRM, kRP, kRZ}, ffma},
      {"FMNMX", {kNAN}, fmnmx},
      {"MUFU.RCP", {}, mufu_rcp},
      {"MUFU.RSQ", {}, mufu_rsq},
      {"FCHK", {}, fchk},
  };
  return kRules;
}

}  // namespace terse::machine
