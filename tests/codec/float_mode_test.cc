// What a program has set for its thread's floating point changes nothing, and is left as it is.
#include "codec/float_mode.h"

#include <gtest/gtest.h>

#include <cfenv>

#include "learned_levels.h"

namespace terse::codec {
namespace {

// Rounds upwards and, where there is such a mode, flushes subnormal numbers to zero.
class StrangeFloatMode {
 public:
  StrangeFloatMode() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#ifdef __SSE2__
    _mm_setcsr(_mm_getcsr() | kFlushes);
#endif
  }
  ~StrangeFloatMode() {
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
#ifdef __SSE2__
    EXPECT_EQ(_mm_getcsr() & kFlushes, kFlushes);
#endif
    std::fesetenv(&before_);
  }

 private:
  static constexpr unsigned kFlushes = 0x8040;  // results, and operands
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
