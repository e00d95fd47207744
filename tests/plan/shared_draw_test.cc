// Contributors to a sum are in pairs, the last three together if they are odd in number.
#include "plan/shared_draw.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace terse::plan {
namespace {

using enum Variate;

TEST(SharedDraw, TwoContributorsAreAPair) {
  EXPECT_EQ(shared_draw_of_all(0, 2), (SharedDraw{0, kOwn}));
  EXPECT_EQ(shared_draw_of_all(1, 2), (SharedDraw{0, kMirrored}));
}

TEST(SharedDraw, ThreeContributorsAreTogether) {
  EXPECT_EQ(shared_draw_of_all(0, 3), (SharedDraw{0, kOwn}));
  EXPECT_EQ(shared_draw_of_all(1, 3), (SharedDraw{0, kDoubled}));
  EXPECT_EQ(shared_draw_of_all(2, 3), (SharedDraw{0, kShifted}));
}

TEST(SharedDraw, OneContributorHasItsOwn) {
  EXPECT_EQ(shared_draw_of_all(0, 1), std::nullopt);
  EXPECT_EQ(shared_draw_without(1, 0, 2), std::nullopt);
}

TEST(SharedDraw, LeavesTheOwnerOut) {
  EXPECT_EQ(shared_draw_without(1, 0, 3), (SharedDraw{0, kOwn}));
  EXPECT_EQ(shared_draw_without(1, 2, 3), (SharedDraw{0, kMirrored}));
}

TEST(SharedDraw, EachContributorIsInOnePairOrTriple) {
  const std::vector<Variate> pair = {kOwn, kMirrored}, triple = {kOwn, kDoubled, kShifted};
  for (size_t n = 2; n < 40; ++n) {
    std::map<uint32_t, std::vector<Variate>> together;
    for (size_t self = 0; self < n; ++self) {
      const SharedDraw draw = shared_draw_of_all(self, n).value();
      together[draw.rank].push_back(draw.variate);
    }
    size_t triples = 0;
    for (const auto& [first, variates] : together) {
      triples += variates.size() == 3;
      EXPECT_EQ(variates, variates.size() == 3 ? triple : pair) << n;
    }
    EXPECT_EQ(triples, n % 2) << n;
  }
}

}  // namespace
}  // namespace terse::plan
