// The kernels on the SIMT executor against the host codec, byte for byte: every codec, rounding and
// type, blocks of all sizes, short tails, any alignment, many pieces in a launch. Memory outside of
// what a piece may touch is out of bounds.
#include <gtest/gtest.h>

#include <algorithm>

#include "cases.h"
#include "expect_noticed.h"
#include "run_case.h"
#include "support.h"

namespace terse::kernels {
namespace {

using codec::Bytes;
using codec::Dtype;
using codec::Random;

TEST(Kernels, GiveTheHostsBytes) {
  Random random(2024);
  for (int repeat = 0; repeat < 1500; ++repeat) {
    const Case c = some_case(random);
    SCOPED_TRACE(std::to_string(repeat) + ": " + describe(c));
    const auto expected = on_host(c);
    const auto found = on_kernels(c, random);
    for (size_t p = 0; p < expected.size(); ++p) {
      const auto [e, f] =
          std::mismatch(expected[p].begin(), expected[p].end(), found[p].begin(), found[p].end());
      ASSERT_TRUE(e == expected[p].end())
          << "piece " << p << ", byte " << e - expected[p].begin() << " of " << expected[p].size()
          << ": " << int(*e) << " expected, " << int(*f) << " found";
    }
  }
}

// Every kernel that there is, on a whole block and a short one.
TEST(Kernels, OfEveryKindGiveTheHostsBytes) {
  Random random(7);
  for (const codec::Spec& spec : codec::every_spec(128))
    for (const Dtype raw : codec::kAllDtypes)
      for (const bool packed : {true, false}) {
        const size_t counts[] = {1024, 201};
        const Case c = conversion(spec, raw, packed, counts, random);
        SCOPED_TRACE(describe(c));
        ASSERT_EQ(on_host(c), on_kernels(c, random));
      }
}

// The comparison with the host's bytes, and what the executor notices, miss no mistake that could
// be in a line of the kernels.
TEST(Kernels, NoMistakeInThemGoesUnnoticed) {
  using enum simt::Mistake;
  Random random(11);
  std::vector<Trial> trials;
  for (int i = 0; i < 700; ++i) {
    const Case c = some_case(random);
    trials.emplace_back([=, seed = random.next(), expected = on_host(c)](const auto* planter) {
      Random same(seed);
      return on_kernels(c, same, planter) == expected;
    });
  }
  EXPECT_EQ(expect_noticed(trials),
            (std::set{kNoBarrier, kWrongLane, kStoresFurther, kLoadsFurther}));
}

}  // namespace
}  // namespace terse::kernels
