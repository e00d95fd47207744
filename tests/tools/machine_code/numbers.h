// What arithmetic on numbers has in common.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

#include "instruction.h"

namespace terse::machine {

// Every NaN that arithmetic gives.
template <class T>
T nan_of_arithmetic();
template <>
inline float nan_of_arithmetic() {
  return std::bit_cast<float>(0x7fffffffu);
}
template <>
inline double nan_of_arithmetic() {
  return std::bit_cast<double>(0xfff8000000000000u);
}

// Of subnormals a zero of their sign.
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }

// Sets the instruction's rounding mode during its lifetime.
class Rounding {
 public:
  explicit Rounding(const Instruction& of) {
    using enum Modifier;
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

}  // namespace terse::machine
