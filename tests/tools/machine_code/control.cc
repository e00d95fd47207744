// Where a warp goes on.
#include "arguments.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;

void nothing(Warp& warp, const Instruction& of) { Arguments(warp, of).end(); }

uint32_t label(const Warp& warp, const Operand& operand) {
  if (operand.kind != Kind::kLabel) warp.fail("a label was expected");
  return static_cast<uint32_t>(operand.value);
}

uint32_t barrier(const Warp& warp, const Operand& operand) {
  if (operand.kind != Kind::kBarrier) warp.fail("a barrier was expected");
  return operand.index;
}

// DEPBAR.LE scoreboard, number, {scoreboards}: waits until at most so many results are missing, and
// none of the others'. Here none ever is, as an instruction is done before the next one.
void wait_for_results(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  if (in.next().kind != Kind::kScoreboard) warp.fail("a scoreboard was expected");
  if (in.next().kind != Kind::kInteger) warp.fail("a number was expected");
  if (of.operands.size() > 2 && in.next().kind != Kind::kScoreboards)
    warp.fail("scoreboards were expected");
  in.end();
}

// BRA [predicate], label: lanes for which both the guard and the predicate are true.
void bra(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand* const also = in.next_predicate();
  const uint32_t to = label(warp, in.next());
  in.end();
  warp.jump(to, also ? warp.predicate(*also) : kAllLanes);
}

// Whether all lanes of the mask execute, or of all where there is no mask.
bool are_together(Warp& warp, const Operand& mask) {
  const Mask all = mask.kind == Kind::kLabel ? kAllLanes : first_value(warp, mask);
  return (all & warp.alive() & ~warp.executing()) == 0;
}

// BRA.DIV [mask], label: jumps unless all lanes of the mask execute.
void bra_div(Warp& warp, const Instruction& of) {
  const uint32_t to = label(warp, of.operands.back());
  if (!are_together(warp, of.operands.front())) warp.jump(to, kAllLanes);
}

// BRA.CONV [mask], label: jumps if they do.
void bra_conv(Warp& warp, const Instruction& of) {
  const uint32_t to = label(warp, of.operands.back());
  if (are_together(warp, of.operands.front())) warp.jump(to, kAllLanes);
}

void call(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const uint32_t to = label(warp, in.next());
  in.end();
  warp.jump(to, kAllLanes);
}

// RET.REL a, function: to where the register says, from the function's beginning on.
void ret(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Lanes<uint64_t> to = warp.wide(in.next());
  const uint32_t from = label(warp, in.next());
  in.end();
  warp.jump(map([=](uint64_t x) { return static_cast<uint32_t>(x) + from; }, to), kAllLanes);
}

void exit(Warp& warp, const Instruction& of) {
  Arguments(warp, of).end();
  warp.exit();
}

// BSSY barrier, label: where its lanes meet again, by BSYNC.
void bssy(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const uint32_t region = barrier(warp, in.next());
  label(warp, in.next());
  in.end();
  warp.enter_region(region);
}

template <void (Warp::*change)(uint32_t)>
void change_region(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const uint32_t region = barrier(warp, in.next());
  in.end();
  (warp.*change)(region);
}

// NANOSLEEP time
void sleep(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  in.integer();
  in.end();
}

// BMOV.32.CLEAR RZ, barrier
void clear(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  if (in.next().index != kZeroRegister) warp.fail("an operand is not known");
  const uint32_t region = barrier(warp, in.next());
  in.end();
  warp.clear_region(region);
}

}  // namespace

std::span<const Rule> control_rules() {
  static constexpr Rule kRules[] = {
      {"NOP", {}, nothing},
      {"YIELD", {}, nothing},
      {"NANOSLEEP", {}, sleep},
      // The order of memory here is no weaker than what these ask for.
      {"MEMBAR.SC.SYS", {}, nothing},
      {"MEMBAR.ALL.SYS", {}, nothing},
      {"ERRBAR", {}, nothing},
      {"CGAERRBAR", {}, nothing},
      {"CCTL.IVALL", {}, nothing},
      {"DEPBAR.LE", {}, wait_for_results},
      {"BRA", {kU}, bra},
      {"BRA.DIV", {}, bra_div},
      {"BRA.CONV", {}, bra_conv},
      {"CALL.REL.NOINC", {}, call},
      {"RET.REL.NODEC", {}, ret},
      {"EXIT", {}, exit},
      {"BSSY", {kRECONVERGENT, kRELIABLE}, bssy},
      {"BSYNC", {kRECONVERGENT, kRELIABLE}, change_region<&Warp::leave_region>},
      {"BREAK", {kRELIABLE}, change_region<&Warp::drop_from_region>},
      {"BMOV.32.CLEAR", {}, clear},
  };
  return kRules;
}

}  // namespace terse::machine
