// What moves values between registers.
#include "arguments.h"
#include "block.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;

template <class T>
void move(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<T> value = in.get<T>();
  in.end();
  warp.set(to, value);
}

// d = a where the predicate is true, else b; of numbers the signs may be changed.
template <class T>
void select(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  Lanes<T> value = in.get<T>();
  const Lanes<T> b = in.get<T>();
  const Mask first = in.predicate();
  in.end();
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    if ((first & bit(lane)) == 0) value[lane] = b[lane];
  warp.set(to, value);
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
  warp.set(to, all_lanes(uint64_t{0}));
}

}  // namespace

std::span<const Rule> move_rules() {
  static constexpr Rule kRules[] = {
      {"MOV", {}, move<uint32_t>},
      {"MOV.64", {}, move<uint64_t>},
      {"R2UR", {}, move<uint32_t>},
      {"SEL", {}, select<uint32_t>},
      {"SEL.64", {}, select<uint64_t>},
      {"FSEL", {}, select<float>},
      {"S2R", {}, s2r},
      {"S2UR", {}, s2r},
      {"CS2R", {k32}, cs2r},
  };
  return kRules;
}

}  // namespace terse::machine
