// Which weights are taken for those of an earlier call: differences to others would be as large as
// they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "delta_caller.h"
#include "engine/comm/shadows.h"
#include "ranks.h"

namespace terse::test {
namespace {

Floats gaussian(unsigned seed, float deviation, size_t count = Shadows::kSampled) {
  std::mt19937 random(seed);
  Normal normal;
  Floats all(count);
  for (float& x : all) x = deviation * normal(random);
  return all;
}

Floats sum(Floats a, const Floats& b) {
  std::ranges::transform(a, b, a.begin(), std::plus());
  return a;
}

// `period`: of every so many elements the first is `x`.
Floats with(Floats all, size_t period, float x) {
  for (size_t i = 0; i < all.size(); i += period) all[i] = x;
  return all;
}

TEST(IsNear, AreWeightsAfterATrainingStep) {
  const Floats weights = gaussian(1, 0.02f);
  EXPECT_TRUE(is_near(weights, weights));
  for (const float rate : {1e-5f, 1e-3f, 3e-3f})
    EXPECT_TRUE(is_near(weights, sum(weights, gaussian(2, rate))));
  EXPECT_FALSE(is_near(weights, sum(weights, gaussian(2, 0.02f))));
  EXPECT_FALSE(is_near(weights, gaussian(2, 0.02f)));
  const Floats zeros(weights.size());
  EXPECT_TRUE(is_near(zeros, zeros));
  EXPECT_FALSE(is_near(zeros, weights));
  EXPECT_FALSE(is_near(weights, zeros));
  EXPECT_FALSE(is_near(weights, Floats(weights.begin() + 1, weights.end())));
}

// The weights of norms, or activations' outliers.
TEST(IsNear, AFewLargeElementsThatAreAlikeSayNothingOfTheOthers) {
  for (const size_t period : {2, 7, 64})
    for (const float x : {1.0f, 60.0f, 0.0f}) {
      const Floats one = with(gaussian(1, 0.05f), period, x),
                   other = with(gaussian(2, 0.05f), period, x);
      EXPECT_FALSE(is_near(one, other)) << x << " once in " << period;
      EXPECT_TRUE(is_near(one, with(sum(one, gaussian(3, 1e-3f)), period, x)));
    }
}

TEST(IsNear, IsNothingToWhatIsNoNumber) {
  const Floats weights = gaussian(1, 0.02f);
  const Floats nans(weights.size(), std::numeric_limits<float>::quiet_NaN());
  const Floats infinite(weights.size(), std::numeric_limits<float>::infinity());
  EXPECT_FALSE(is_near(nans, nans));
  for (const Floats& unsound : {nans, infinite}) {
    EXPECT_FALSE(is_near(weights, unsound));
    EXPECT_FALSE(is_near(unsound, weights));
  }
}

// Where a layer's shards have ones, as norms' weights are.
struct Ones {
  const char* name;
  bool (*has)(int rank, size_t i);
};

constexpr size_t kCount = 20'000;
constexpr Ones kOnes[] = {
    {"AtTheBeginning", [](int, size_t i) { return i < 700; }},
    {"OnOneRank", [](int rank, size_t i) { return rank == 0 && i < 700; }},
    {"AtRegularDistances", [](int, size_t i) { return i % (kCount / 16) < 128; }},
    {"InPlaces", [](int, size_t i) { return i % 9 == 0; }},
};

class Layers : public testing::TestWithParam<Ones> {
 public:
  // Of a rank's shard at a step.
  static Floats weights(int rank, size_t layer, int step) {
    Floats all = gaussian(static_cast<unsigned>(1 + rank * 100 + layer), 0.02f, kCount);
    for (int s = 0; s < step; ++s)
      all = sum(all, gaussian(static_cast<unsigned>(10'000 + s), 1e-4f, kCount));
    for (size_t i = 0; i < kCount; ++i)
      if (GetParam().has(rank, i)) all[i] = 1;
    return all;
  }

  // The relative error of what is received, but for the ones.
  static double error(const Floats& recv, int ranks, size_t layer, int step) {
    double squares = 0, norm = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const Floats want = weights(rank, layer, step);
      for (size_t i = 0; i < kCount; ++i) {
        if (GetParam().has(rank, i)) continue;
        const double difference = recv[rank * kCount + i] - want[i];
        squares += difference * difference;
        norm += want[i] * want[i];
      }
    }
    return std::sqrt(squares / norm);
  }

  static constexpr int kRanks = 3, kSteps = 3;
  static constexpr size_t kLayers = 6;
};

// As FSDP gathers them, forth and back.
TEST_P(Layers, HaveEachAShadowOfItsOwn) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("int4:block=2048,delta=shadow");
    Floats recv(kRanks * kCount);
    for (int step = 0; step < kSteps; ++step)
      for (size_t i = 0; i < 2 * kLayers; ++i) {
        const size_t layer = i < kLayers ? i : 2 * kLayers - 1 - i;
        const Floats send = weights(rank, layer, step);
        ASSERT_EQ(terseAllGather(send.data(), recv.data(), kCount, ncclFloat32, scheme.get(), comm,
                                 nullptr),
                  ncclSuccess)
            << terseGetLastError();
        EXPECT_LT(error(recv, kRanks, layer, step), step == 0 ? 1e-30 : 2e-3);
      }
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], kLayers);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 0u);
    EXPECT_EQ(stats.delta_calls, (kSteps - 1) * kLayers);
    EXPECT_EQ(stats.delta_unchanged, kSteps * kLayers);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Layers that come to one buffer in turn, which delta=inplace is not for.
TEST_P(Layers, InOneBufferGoInFull) {
  run_ranks(kRanks, [](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("int4:block=2048,delta=inplace");
    Floats recv(kRanks * kCount);
    for (int step = 0; step < kSteps; ++step)
      for (size_t layer = 0; layer < 2; ++layer) {
        std::ranges::copy(weights(rank, layer, step), recv.begin() + rank * kCount);
        ASSERT_EQ(terseAllGather(recv.data() + rank * kCount, recv.data(), kCount, ncclFloat32,
                                 scheme.get(), comm, nullptr),
                  ncclSuccess)
            << terseGetLastError();
        EXPECT_LT(error(recv, kRanks, layer, step), 1e-30);
      }
    EXPECT_EQ(client_stats(comm).delta_calls, 0u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(Delta, Layers, testing::ValuesIn(kOnes),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace terse::test
