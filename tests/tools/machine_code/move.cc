// What moves values between registers.
#include "arguments.h"
#include "block.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;

void mov(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<uint32_t> value = in.word();
  in.end();
  warp.set(to, value);
}

void mov_64(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<uint64_t> value = warp.wide(in.next());
  in.end();
  warp.set_wide(to, value);
}

template <class T>
Lanes<T> selected(const Lanes<T>& a, const Lanes<T>& b, Mask first) {
  Lanes<T> value;
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    value[lane] = first & bit(lane) ? a[lane] : b[lane];
  return value;
}

void sel(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<uint32_t> a = in.word(), b = in.word();
  const Mask first = in.predicate();
  in.end();
  warp.set(to, selected(a, b, first));
}

void sel_64(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<uint64_t> a = warp.wide(in.next()), b = warp.wide(in.next());
  const Mask first = in.predicate();
  in.end();
  warp.set_wide(to, selected(a, b, first));
}

// Of numbers, whose signs may be changed.
void fsel(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<float> a = warp.real(in.next()), b = warp.real(in.next());
  const Mask first = in.predicate();
  in.end();
  warp.set(to, selected(a, b, first));
}

Lanes<uint32_t> special(const Warp& warp, const Operand& operand) {
  Lanes<uint32_t> value{};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (operand.name == "SR_TID.X") {
      value[lane] = warp.thread(lane);
    } else if (operand.name == "SR_CTAID.X") {
      value[lane] = warp.block().index();
    } else if (operand.name == "SR_LANEID") {
      value[lane] = lane;
    } else if (operand.name != "SR_CgaCtaId") {  // there are no clusters
      warp.fail("a special register is not known");
    }
  }
  return value;
}

void s2r(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  warp.set(to, special(warp, in.next()));
  in.end();
}

// CS2R d, SRZ
void cs2r(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  if (in.next().name != "SRZ") warp.fail("a special register is not known");
  in.end();
  if (of.has(k32)) return warp.set(to, all_lanes(0u));
  warp.set_wide(to, all_lanes(uint64_t{0}));
}

void r2ur(Warp& warp, const Instruction& of) { mov(warp, of); }

}  // namespace

std::span<const Rule> move_rules() {
  static constexpr Rule kRules[] = {
      {"MOV", {}, mov},       {"MOV.64", {}, mov_64}, {"SEL", {}, sel},
      {"SEL.64", {}, sel_64}, {"FSEL", {}, fsel},     {"S2R", {}, s2r},
      {"S2UR", {}, s2r},      {"CS2R", {k32}, cs2r},  {"R2UR", {}, r2ur},
  };
  return kRules;
}

}  // namespace terse::machine
