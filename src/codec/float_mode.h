// How the processor computes while a codec is at work, whatever the program has set for its thread:
// rounding to nearest, and subnormal numbers as what they are. A program that flushes them to zero
// (PyTorch's set_flush_denormal) would else get other numbers than the other ranks.
#pragma once

#include <cfenv>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace terse::codec {

// Compilers know nothing of the mode: what reads memory or writes it they keep after or before
// this.
inline void keep_in_order() { asm volatile("" ::: "memory"); }

// Sets the default floating-point environment for the C library, which goes by more than one unit's
// mode: it reads numbers from text by that of x87.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
    keep_in_order();
  }
  ~DefaultFloatEnvironment() {
    keep_in_order();
    std::fesetenv(&before_);
  }
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  std::fenv_t before_;
};

#ifdef __SSE2__
// Sets the default mode for compiled code in its scope; costs nothing if that is the mode.
class DefaultFloatMode {
 public:
  DefaultFloatMode() {
    if (!is_default()) _mm_setcsr(kDefault);
    keep_in_order();
  }
  ~DefaultFloatMode() {
    keep_in_order();
    if (!is_default()) _mm_setcsr(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  static constexpr unsigned kDefault = 0x1F80, kFlags = 0x3F;  // of MXCSR

  bool is_default() const { return (before_ & ~kFlags) == kDefault; }

  const unsigned before_ = _mm_getcsr();
};
#else
using DefaultFloatMode = DefaultFloatEnvironment;
#endif

}  // namespace terse::codec
