// How the processor computes while a codec is at work, whatever the program has set for its thread:
// rounding to nearest, and subnormal numbers as what they are. A program that flushes them to zero
// (PyTorch's set_flush_denormal) would else get other numbers than the other ranks.
#pragma once

#ifdef __SSE2__
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace terse::codec {

class DefaultFloatMode {
 public:
  DefaultFloatMode() {
    set_default();
    keep_in_order();
  }
  ~DefaultFloatMode() {
    keep_in_order();
    restore();
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
  // Compilers know nothing of the mode: what reads memory or writes it they keep between these two.
  static void keep_in_order() { asm volatile("" ::: "memory"); }

#ifdef __SSE2__
  static constexpr unsigned kDefault = 0x1F80, kFlags = 0x3F;  // of MXCSR

  bool is_default() const { return (before_ & ~kFlags) == kDefault; }
  void set_default() {
    if (!is_default()) _mm_setcsr(kDefault);
  }
  void restore() {
    if (!is_default()) _mm_setcsr(before_);
  }

  const unsigned before_ = _mm_getcsr();
#else
  void set_default() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  void restore() { std::fesetenv(&before_); }

  std::fenv_t before_;
#endif
};

}  // namespace terse::codec
