// The operands of an instruction, one after the other.
#pragma once

#include <bit>
#include <type_traits>

#include "instruction.h"
#include "warp.h"

namespace terse::machine {

class Arguments {
 public:
  Arguments(const Warp& warp, const Instruction& of) : warp_(warp), of_(of) {}

  bool empty() const { return next_ == of_.operands.size(); }
  const Operand& next() {
    if (empty()) warp_.fail("an operand is missing");
    return of_.operands[next_++];
  }
  // The next one if it is a predicate, or null.
  const Operand* next_predicate() {
    if (empty() || !of_.operands[next_].is_predicate()) return nullptr;
    return &next();
  }
  template <class T>
  Lanes<T> get() {
    if constexpr (std::is_same_v<T, float>) return warp_.real(next());
    if constexpr (std::is_same_v<T, double>) return warp_.real64(next());
    if constexpr (std::is_same_v<T, uint64_t>) return warp_.wide(next());
    if constexpr (std::is_same_v<T, uint32_t>) return warp_.word(next());
  }
  Lanes<uint32_t> word() { return warp_.word(next()); }
  // A word without marks.
  Lanes<uint32_t> plain() {
    const Operand& operand = next();
    if (operand.negated || operand.complemented) warp_.fail("an operand is not known");
    return warp_.word(operand);
  }
  Mask predicate() { return warp_.predicate(next()); }
  uint32_t integer() {
    const Operand& operand = next();
    if (operand.kind != Kind::kInteger) warp_.fail("an integer was expected");
    return static_cast<uint32_t>(operand.value);
  }
  // No operand may be left: an instruction of another form is not known.
  void end() const {
    if (!empty()) warp_.fail("an operand is not known");
  }

 private:
  const Warp& warp_;
  const Instruction& of_;
  size_t next_ = 0;
};

// The word of the first lane that executes.
inline uint32_t first_value(const Warp& warp, const Operand& operand) {
  const auto first = static_cast<uint32_t>(std::countr_zero(warp.executing() | 1u << 31));
  return warp.word(operand)[first];
}

// AND, OR or XOR with another predicate.
inline Mask combined(const Warp& warp, const Instruction& of, Mask a, Mask b) {
  using enum Modifier;
  if (of.has(kAND)) return a & b;
  if (of.has(kOR)) return a | b;
  if (of.has(kXOR)) return a ^ b;
  warp.fail("AND, OR or XOR was expected");
}

}  // namespace terse::machine
