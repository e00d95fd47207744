// What a program has set for its thread's floating point changes nothing, and is left as it is.
#include "codec/float_mode.h"

#include <gtest/gtest.h>

#include <cfenv>

#include "codec/codebook.h"
#include "codec/learning.h"
#include "support.h"

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

Floats levels_of(const Floats& x) {
  LearningState state{};
  Floats table(codebook_floats(4));
  for (const auto stage :
       {Learning::Stage::kWidest, Learning::Stage::kHistogram, Learning::Stage::kFit})
    learn({stage, Dtype::kFloat32, 4, Rounding::kNearest, 128, x.size(), x.data(), &state,
           table.data()});
  return table;
}

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
  const Floats x = numbers(Kin::kWide, 5000, random), levels = levels_of(x);
  const StrangeFloatMode strange;
  EXPECT_EQ(levels_of(x), levels);
}

}  // namespace
}  // namespace terse::codec
