// One operand of an instruction, as nvdisasm prints it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace terse::machine {

// RZ and URZ read as zero, PT and UPT as true; what is written to them is lost.
constexpr uint32_t kZeroRegister = 255;
constexpr uint32_t kTruePredicate = 7;
constexpr uint32_t kBarriers = 16;
constexpr uint32_t kScoreboards = 6;

enum class Kind : uint8_t {
  kRegister,          // R4
  kUniform,           // UR4
  kPredicate,         // P0
  kUniformPredicate,  // UP0
  kPredicates,        // PR: all of P0 to P6
  kInteger,           // 0x10
  kReal,              // 1.5, +INF, -QNAN
  kConstant,          // c[0x0][R2+0x10]
  kAddress,           // desc[UR4][R2.64+0x10], [R3.X4+UR2]
  kBarrier,           // B4
  kScoreboard,        // SB0
  kScoreboards,       // {1}, {3,2}
  kLabel,             // `(.L_x_3)
  kSpecial,           // SR_TID.X
};

// Which half of a register holds a 16-bit float, or two 8-bit ones.
enum class Half : uint8_t { kNone, kLow, kHigh };

struct Operand {
  Kind kind;
  uint32_t index = 0;         // of a register, predicate or barrier; the bank of a constant
  int64_t value = 0;          // an integer; a constant's or an address's offset; a label's address
  double real = 0;            // a number
  bool negated = false;       // -x
  bool complemented = false;  // ~x, !P
  bool absolute = false;      // |x|
  bool base_is_32_bits = false;  // [R2.U32+UR4]
  Half half = Half::kNone;
  uint32_t base = kZeroRegister;          // of a constant or an address: R
  uint32_t uniform_base = kZeroRegister;  // UR
  uint32_t scale = 1;                     // of base
  std::string name = {};                  // of a label or a special register

  bool is_predicate() const { return kind == Kind::kPredicate || kind == Kind::kUniformPredicate; }
};

// Throws std::invalid_argument if the text is no operand that is known.
Operand parse_operand(std::string_view text);

}  // namespace terse::machine
