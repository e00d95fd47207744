// Why rounding of weights must be unbiased: the counterexample of QSDP (arXiv 2302.02390). Descent
// on f(w) = |w|^2 whose iterate is quantized at each step sticks where it starts when rounding is
// to nearest, and comes to the minimum when rounding is unbiased.
#include <gtest/gtest.h>

#include "support.h"

namespace terse::codec {
namespace {

constexpr float kRate = 0.05f;  // of descent: each step takes w to 0.9 w

struct Path {
  double f;        // |w|^2, mean over the later half of the steps
  double mean[2];  // w, likewise
  Floats last;
};

// Two weights from (1, -1). The block holds 1 and -1 besides, which stay: they pin the grid, which
// would follow the weights otherwise.
Path descend(const Spec& spec, int steps) {
  Floats w = {1, -1};
  Path path{};
  for (int i = 0; i < steps; ++i) {
    const Floats next = {w[0] - kRate * 2 * w[0], w[1] - kRate * 2 * w[1], 1, -1};
    w = round_trip(spec, {.sequence = static_cast<uint64_t>(i)}, next);
    w.resize(2);
    if (i < steps / 2) continue;
    const double part = 1.0 / (steps - steps / 2);
    path.f += part * (double{w[0]} * w[0] + double{w[1]} * w[1]);
    for (int k = 0; k < 2; ++k) path.mean[k] += part * w[k];
  }
  path.last = w;
  return path;
}

TEST(Descent, NearestSticks) {
  for (CodecId codec : {kSymmetric, kMinMax}) {
    const Path path = descend(make_spec({codec, Rounding::kNearest}, 2, 32), 2000);
    EXPECT_DOUBLE_EQ(path.f, 2);
    EXPECT_EQ(path.last, (Floats{1, -1}));
  }
}

// Ternary: zeros stay zeros, so once there, it stays.
TEST(Descent, StochasticReachesTheMinimum) {
  const Path path = descend(make_spec({kSymmetric, Rounding::kStochastic}, 2, 32), 2000);
  EXPECT_EQ(path.f, 0);
  EXPECT_EQ(path.last, (Floats{0, 0}));
}

// Four levels, none of them zero: about the minimum, no farther than a step.
TEST(Descent, ShiftComesToTheMinimum) {
  const Path path = descend(make_spec({kMinMax, Rounding::kShift}, 2, 32), 40000);
  EXPECT_LT(path.f, 4.0 / 9);
  for (double mean : path.mean) EXPECT_NEAR(mean, 0, 0.05);
}

}  // namespace
}  // namespace terse::codec
