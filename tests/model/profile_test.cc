// What was measured: between the points, beyond them, and of which calls.
#include "model/profile.h"

#include <gtest/gtest.h>

namespace terse::model {
namespace {

using codec::Dtype;
using plan::Collective;

Curve through(std::vector<Curve::Point> points) {
  return {.scheme = "native", .points = std::move(points)};
}

TEST(Curve, IsALineBetweenPointsAndGoesOnAsItEnds) {
  const Curve curve = through({{100, 1}, {200, 3}, {400, 4}});
  const struct {
    size_t bytes;
    double seconds;
  } cases[] = {
      {0, 1},   {1, 1},     {99, 1},                   // no less than the first
      {100, 1}, {200, 3},   {400, 4},                  // the points themselves
      {150, 2}, {175, 2.5}, {300, 3.5}, {399, 3.995},  // between
      {600, 5}, {2400, 14},                            // beyond, as between the last two
  };
  for (const auto& c : cases) EXPECT_DOUBLE_EQ(curve.seconds(c.bytes), c.seconds) << c.bytes;
}

TEST(Curve, OfOnePointGoesOnInProportion) {
  for (const size_t bytes : {0u, 100u}) EXPECT_EQ(through({{100, 7}}).seconds(bytes), 7) << bytes;
  EXPECT_DOUBLE_EQ(through({{100, 7}}).seconds(1'000), 70);
}

// A measurement that fell by chance falls between its points, but not on to nothing.
TEST(Curve, NoiseNeverMakesLargerMessagesFaster) {
  for (const double last : {4.0, 5.0}) {
    const Curve curve = through({{100, 1}, {200, 5}, {400, last}});
    EXPECT_EQ(curve.seconds(300), (5 + last) / 2);
    EXPECT_EQ(curve.seconds(400), last);
    EXPECT_DOUBLE_EQ(curve.seconds(500), 1.25 * last);
    EXPECT_DOUBLE_EQ(curve.seconds(4000), 10 * last);
  }
}

// One that rose by hardly anything says no more of larger ones.
TEST(Curve, BeyondTheLastPointNothingIsNearlyFree) {
  const Curve curve = through({{100, 1}, {200, 5}, {400, 5.001}});
  EXPECT_DOUBLE_EQ(curve.seconds(800), 1.5 * 5.001);
}

class Measured : public ::testing::Test {
 protected:
  void add(Dtype dtype, Collective collective = Collective::kAllReduce, int ranks = 4,
           int nodes = 2, const char* scheme = "int8") {
    profile_.measured.push_back({collective, dtype, ranks, nodes, scheme, {{1, 1}}});
  }
  // Its place in the profile; -1: there is none.
  std::ptrdiff_t found(Dtype dtype, std::string_view scheme = "int8", bool fused = false) const {
    const Curve* const curve = profile_.curve(Collective::kAllReduce, dtype, 4, 2, scheme, fused);
    return curve == nullptr ? -1 : curve - profile_.measured.data();
  }

  Profile profile_;
};

TEST_F(Measured, ATypeOfTheSameWidthStandsInForAnother) {
  EXPECT_EQ(found(Dtype::kFloat16), -1);
  add(Dtype::kFloat32);
  EXPECT_EQ(found(Dtype::kFloat16), -1);
  EXPECT_EQ(found(Dtype::kFloat32), 0);
  add(Dtype::kBfloat16);
  EXPECT_EQ(found(Dtype::kFloat16), 1);
  add(Dtype::kFloat16);
  EXPECT_EQ(found(Dtype::kFloat16), 2);
  EXPECT_EQ(found(Dtype::kBfloat16), 1);
  EXPECT_EQ(found(Dtype::kFloat32), 0);
}

// What is done the same way is nearer than what is of the same type.
TEST_F(Measured, FusedCallsStandInForThoseInSteps) {
  add(Dtype::kBfloat16);
  EXPECT_EQ(found(Dtype::kBfloat16, "int8", true), 0);
  add(Dtype::kFloat16);
  profile_.measured.back().fused = true;
  EXPECT_EQ(found(Dtype::kBfloat16, "int8", true), 1);
  EXPECT_EQ(found(Dtype::kFloat16, "int8", true), 1);
  EXPECT_EQ(found(Dtype::kFloat16), 0);
  add(Dtype::kBfloat16);
  profile_.measured.back().fused = true;
  EXPECT_EQ(found(Dtype::kBfloat16, "int8", true), 2);
  EXPECT_EQ(found(Dtype::kBfloat16), 0);
}

TEST_F(Measured, AllElseHasToBeTheSame) {
  add(Dtype::kFloat32, Collective::kAllGather);
  add(Dtype::kFloat32, Collective::kAllReduce, 8);
  add(Dtype::kFloat32, Collective::kAllReduce, 4, 1);
  add(Dtype::kFloat32, Collective::kAllReduce, 4, 2, "native");
  EXPECT_EQ(found(Dtype::kFloat32), -1);
  EXPECT_EQ(found(Dtype::kFloat32, "nativ"), -1);
  EXPECT_EQ(found(Dtype::kFloat32, "native"), 3);
}

}  // namespace
}  // namespace terse::model
