// What a program has set for its thread's floating point changes nothing, and is left as it is.
#include "codec/float_mode.h"

#include <gtest/gtest.h>

#include <cfenv>

#include "learned_levels.h"

namespace terse::codec {
namespace {

// The register of the mode, and its bits that flush subnormal results and operands to zero.
#if defined(__SSE2__)
constexpr unsigned kFlushes = 0x8040;
unsigned mode() { return _mm_getcsr(); }
void set_mode(unsigned mode) { _mm_setcsr(mode); }
#elif defined(__aarch64__)
constexpr unsigned kFlushes = 1u << 24;
unsigned mode() { return __builtin_aarch64_get_fpcr(); }
void set_mode(unsigned mode) { __builtin_aarch64_set_fpcr(mode); }
#else
constexpr unsigned kFlushes = 0;
unsigned mode() { return 0; }
void set_mode(unsigned) {}
#endif

// Rounds upwards and, where there is such a mode, flushes subnormal numbers to zero.
class StrangeFloatMode {
 public:
  StrangeFloatMode() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
    set_mode(mode() | kFlushes);
  }
  ~StrangeFloatMode() {
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    EXPECT_EQ(mode() & kFlushes, kFlushes);
    std::fesetenv(&before_);
  }

 private:
  std::fenv_t before_;
};

TEST(FloatMode, OfTheProgramDoesNotCount) {
  Random random(11);
  for (const Kin kin : {Kin::kGaussian, Kin::kHuge, Kin::kSubnormal, Kin::kWide})
    for (const Spec& spec : every_spec(128)) {
      SCOPED_TRACE(describe(spec) + " kin " + std::to_string(static_cast<int>(kin)));
      const Bytes memory = oracle::to_memory(Dtype::kFloat32, numbers(kin, 300, random));
      const Bytes body = encode(spec, {}, Dtype::kFloat32, memory);
      const Bytes decoded = decode(spec, body, 300, Dtype::kFloat32);
      const StrangeFloatMode strange;
      EXPECT_EQ(encode(spec, {}, Dtype::kFloat32, memory), body);
      EXPECT_EQ(decode(spec, body, 300, Dtype::kFloat32), decoded);
    }
}

TEST(FloatMode, OfTheProgramTeachesNothing) {
  Random random(12);
  const Floats x = numbers(Kin::kWide, 5000, random),
               table = fitted_table(x, 128, 4, Rounding::kNearest);
  const StrangeFloatMode strange;
  EXPECT_EQ(fitted_table(x, 128, 4, Rounding::kNearest), table);
}

}  // namespace
}  // namespace terse::codec
