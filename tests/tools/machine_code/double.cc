// Arithmetic on numbers of 64 bits.
#include <bit>
#include <cfenv>
#include <cmath>

#include "arguments.h"
#include "block.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;
using Doubles = Lanes<double>;

const double kNan = std::bit_cast<double>(0xfff8000000000000u);

template <class F, class... X>
void compute(Warp& warp, const Instruction& of, const Operand& to, F f, const X&... x) {
  const int before = std::fegetround();
  if (of.has(kRP)) std::fesetround(FE_UPWARD);
  Doubles value;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    volatile double y = f(x[lane]...);
    value[lane] = y != y ? kNan : y;
  }
  std::fesetround(before);
  warp.set_wide(to, value);
}

// Hides the value from the compiler's constant folding.
double opaque(double x) {
  volatile double y = x;
  return y;
}

void dadd(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Doubles a = warp.real64(in.next()), b = warp.real64(in.next());
  in.end();
  compute(
      warp, of, to, [](double x, double y) { return opaque(x) + opaque(y); }, a, b);
}

void dmul(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Doubles a = warp.real64(in.next()), b = warp.real64(in.next());
  in.end();
  compute(
      warp, of, to, [](double x, double y) { return opaque(x) * opaque(y); }, a, b);
}

void dfma(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Doubles a = warp.real64(in.next()), b = warp.real64(in.next()), c = warp.real64(in.next());
  in.end();
  compute(
      warp, of, to,
      [](double x, double y, double z) { return std::fma(opaque(x), opaque(y), opaque(z)); }, a, b,
      c);
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
                     return exact + warp.block().random().below(3) - 1;
                   },
                   a));
}

}  // namespace

std::span<const Rule> double_rules() {
  static constexpr Rule kRules[] = {
      {"DADD", {}, dadd},
      {"DMUL", {kRP}, dmul},
      {"DFMA", {}, dfma},
      {"MUFU.RCP64H", {}, mufu_rcp64h},
  };
  return kRules;
}

}  // namespace terse::machine
