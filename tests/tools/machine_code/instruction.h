// One machine instruction, decoded.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operand.h"

namespace terse::machine {

class Warp;
struct Instruction;

using Execute = void (*)(Warp& warp, const Instruction& instruction);

// What follows an opcode's name: ".U32", ".AND". A rule (rules.h) lists those of its opcode.
// clang-format off
#define TERSE_MODIFIERS(M) \
  M(32) M(64) M(128) M(ALL) M(AND) M(COLLECTIVE) M(DEFER_BLOCKING) M(EF) M(EQ) M(EX) M(FTZ) \
  M(GE) M(GEU) M(GPU) M(GT) M(GTU) M(HI) M(IADD) M(L) M(LE) M(LEU) M(LT) M(LTU) M(LUT) M(MMA) \
  M(MOV) M(NAN) M(NE) M(NEU) M(OR) M(R) M(RECONVERGENT) M(RELIABLE) M(RM) M(RP) M(RZ) M(S16) \
  M(S32) M(S64) M(S8) M(SHL) M(STRONG) M(SYS) M(U) M(U16) M(U32) M(U64) M(U8) M(W) M(X) M(XOR)
// clang-format on

enum class Modifier : uint8_t {
#define TERSE_ENUMERATOR(name) k##name,
  TERSE_MODIFIERS(TERSE_ENUMERATOR)
#undef TERSE_ENUMERATOR
};

class Modifiers {
 public:
  constexpr Modifiers() = default;
  constexpr Modifiers(std::initializer_list<Modifier> all) {
    for (const Modifier one : all) add(one);
  }
  constexpr void add(Modifier one) { bits_[word(one)] |= place(one); }
  constexpr bool has(Modifier one) const { return (bits_[word(one)] & place(one)) != 0; }
  // How many of them are there.
  constexpr int count(const Modifiers& of) const {
    return std::popcount(bits_[0] & of.bits_[0]) + std::popcount(bits_[1] & of.bits_[1]);
  }
  constexpr bool within(const Modifiers& others) const {
    return (bits_[0] & ~others.bits_[0]) == 0 && (bits_[1] & ~others.bits_[1]) == 0;
  }

 private:
  static constexpr size_t word(Modifier one) { return static_cast<size_t>(one) / 64; }
  static constexpr uint64_t place(Modifier one) {
    return uint64_t{1} << (static_cast<size_t>(one) % 64);
  }
  uint64_t bits_[2] = {};
};

struct Instruction {
  uint32_t address = 0;  // bytes from the function's beginning
  std::optional<Operand> guard = {};
  Modifiers modifiers = {};
  std::vector<Operand> operands = {};
  Execute execute = nullptr;
  std::string text = {};
  mutable uint64_t times_executed = 0;  // by at least one lane

  bool has(Modifier modifier) const { return modifiers.has(modifier); }
};

// "@P0 IADD3 R1, R2, R3, RZ". Throws std::invalid_argument if the opcode, one of its modifiers or
// an operand is not known. Labels have no address yet.
Instruction parse_instruction(std::string_view text);

}  // namespace terse::machine
