// The second quantization of an AllReduce, of sums on their way to all ranks, in a format or with a
// rounding of its own: `second=` and `second-round=`.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "engine/comm/shape.h"
#include "plan/algorithms.h"
#include "reference.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr size_t kCount = 1 << 15;

Call reduce_of(const std::string& scheme, std::vector<int> node = {}) {
  return {.collective = Collective::kAllReduce,
          .scheme = parse_scheme(scheme),
          .count = kCount,
          .node = std::move(node)};
}

std::vector<Bytes> gaussian_of(int ranks) {
  std::vector<Bytes> sent;
  for (int r = 0; r < ranks; ++r) sent.push_back(gaussian(kCount, ncclFloat32, r));
  return sent;
}

double error_of(const std::string& scheme, int ranks, std::vector<int> node = {}) {
  const Call call = reduce_of(scheme, std::move(node));
  const auto sent = gaussian_of(ranks);
  return relative_error(values(expected(call, sent)[0], ncclFloat32), exact(call, sent)[0]);
}

// Relative errors of one quantization in blocks of 128, of Gaussian elements; and of a sum whose
// contributors share their draws.
constexpr double kNearest4 = 0.1175, kShared4 = 0.120, kStochastic4 = 0.166, kStochastic5 = 0.0774,
                 kStochastic8 = 0.0092;

double together(double first, double second) { return std::hypot(first, second); }

TEST(Second, AWiderFormatErrsAsTheFirstShotAlone) {
  EXPECT_NEAR(error_of("int4:round=stochastic,second=int8", 4), together(kShared4, kStochastic8),
              0.004);
}

// The owner's own contribution is exact unless the formats have other bodies.
TEST(Second, ErrorsAreThoseOfBothQuantizations) {
  const double exact_own = kShared4 * std::sqrt(3.0 / 4);
  const struct {
    const char* scheme;
    double error;
  } kCases[] = {
      {"int4:round=stochastic", together(exact_own, kStochastic4)},
      {"int4:round=stochastic,second-round=nearest", together(exact_own, kNearest4)},
      {"int4:round=stochastic,second=int5", together(kShared4, kStochastic5)},
      {"int8:round=stochastic,second=int4", together(kStochastic8, kStochastic4)},
  };
  for (const auto& c : kCases) EXPECT_NEAR(error_of(c.scheme, 4), c.error, 0.004) << c.scheme;
}

TEST(Second, InTwoLevelsToo) {
  const std::vector<int> node = {0, 0, 1, 1};
  const std::string first = "int4:round=stochastic,intra=int8,algo=hierarchical";
  const double plain = error_of(first, 4, node);
  EXPECT_NEAR(error_of(first + ",second-round=nearest", 4, node),
              std::sqrt(plain * plain - kStochastic4 * kStochastic4 + kNearest4 * kNearest4),
              0.004);
  EXPECT_NEAR(error_of(first + ",second=int8", 4, node),
              std::sqrt(plain * plain - kStochastic4 * kStochastic4 + kStochastic8 * kStochastic8),
              0.004);
}

// The mean over many seeds comes as near to the exact sum as chance has it; to nearest it does not.
TEST(Second, IsUnbiasedUnlessToNearest) {
  constexpr int kSeeds = 200;
  const auto excess = [&](const std::string& scheme) {
    Call call = reduce_of(scheme);
    call.count = 4096;
    call.scheme.algorithm = *plan::find_algo("twoshot");
    std::vector<Bytes> sent;
    for (int r = 0; r < 4; ++r) sent.push_back(gaussian(call.count, ncclFloat32, r));
    const auto truth = exact(call, sent)[0];
    std::vector<double> mean(truth.size());
    double square = 0, mean_square = 0;
    for (int seed = 0; seed < kSeeds; ++seed) {
      call.scheme.seed = seed;
      const auto x = values(expected(call, sent)[0], ncclFloat32);
      for (size_t i = 0; i < x.size(); ++i) {
        mean[i] += (x[i] - truth[i]) / kSeeds;
        square += (x[i] - truth[i]) * (x[i] - truth[i]) / kSeeds;
      }
    }
    for (const double m : mean) mean_square += m * m;
    return std::sqrt(mean_square / (square / kSeeds));
  };
  EXPECT_LT(excess("int4:round=stochastic,second=int5"), 1.1);
  EXPECT_LT(excess("int4:round=stochastic,second=mxfp8,block=64"), 1.1);
  EXPECT_GT(excess("int8:round=stochastic,second=int3,second-round=nearest"), 3);
}

// What is sent is counted as it is: of n ranks each sends n - 1 shards in either format.
TEST(Second, BytesAreThoseOfEachShot) {
  const auto bytes_of = [](const char* scheme) {
    const plan::Topology nowhere;
    const plan::Shape shape =
        shape_of(parse_scheme(scheme).forms(), kCount, 4, {4, 1, 0}, {plan::kHostChunks, nowhere});
    return plan::two_shot_all_reduce(shape).wire_bytes;
  };
  const size_t shard = kCount / 4, params = 4 * shard / 128;
  EXPECT_EQ(bytes_of("int4"), 3 * 2 * (shard / 2 + params));
  EXPECT_EQ(bytes_of("int4:second=int8"), 3 * (shard / 2 + params) + 3 * (shard + params));
  EXPECT_EQ(bytes_of("int4:second-round=stochastic"), bytes_of("int4"));
}

}  // namespace
}  // namespace terse::test
