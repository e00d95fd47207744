// Elements that are not finite, wherever they are and whichever rank sends them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "programs.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr int kRanks = 4;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};

class Poison : public EachScheme {
 protected:
  // Two whole blocks and a ragged tail.
  size_t count() const { return 2 * block() + 37; }

  // The first and the last of a block and of the tail.
  std::vector<size_t> places() const { return {0, block() - 1, block(), 2 * block(), count() - 1}; }

  Case poisoned(Collective collective, ncclRedOp_t op, ncclDataType_t type, size_t at,
                const Floats& poison) const;
  void expect_poison(std::span<const Case> cases) const;
};

// The ranks send 1, 2, 3 and 4, and `poison` by rank at element `at`, where it is not zero.
Case Poison::poisoned(Collective collective, ncclRedOp_t op, ncclDataType_t type, size_t at,
                      const Floats& poison) const {
  Case c{.call = {.collective = collective, .datatype = type, .op = op, .count = count()}};
  for (int r = 0; r < kRanks; ++r) {
    Floats x(send_count(c.call, kRanks), static_cast<float>(r + 1));
    for (size_t i = at; i < x.size(); i += count())
      if (poison[r] != 0) x[i] = poison[r];
    c.sent.push_back(bytes_of(x, type));
  }
  return c;
}

Floats on_rank(int rank, float poison) {
  Floats all(kRanks);
  all[rank] = poison;
  return all;
}

// Elements that are no further than a block from one that is not finite.
std::vector<bool> spoiled(const std::vector<double>& truth, size_t block) {
  std::vector<bool> all(truth.size());
  for (size_t k = 0; k < truth.size(); ++k) {
    if (std::isfinite(truth[k])) continue;
    const size_t end = std::min(k + block + 1, truth.size());
    for (size_t i = k - std::min(k, block); i < end; ++i) all[i] = true;
  }
  return all;
}

// What is not finite natively is not, and what lies a block away is near.
void Poison::expect_poison(std::span<const Case> cases) const {
  const Results got = play(scheme(), kRanks, cases), want = play(kNative, kRanks, cases);
  EXPECT_EQ(got.compressed, cases.size());
  for (size_t i = 0; i < cases.size(); ++i)
    for (int r = 0; r < kRanks; ++r) {
      const Call& call = cases[i].call;
      const auto found = values(got.received[i][r], call.datatype);
      const auto truth = values(want.received[i][r], call.datatype);
      const std::vector<bool> near = spoiled(truth, block());
      size_t lost = 0, wrong = 0;
      for (size_t k = 0; k < truth.size(); ++k) {
        if (!std::isfinite(truth[k]))
          lost += std::isnan(truth[k]) ? !std::isnan(found[k]) : std::isfinite(found[k]);
        else if (!near[k])
          wrong += !(std::abs(found[k] - truth[k]) <= 10 * 2 * step(scheme()));
      }
      EXPECT_EQ(lost + wrong, 0u) << lost << " lost and " << wrong << " wrong: case " << i << ", "
                                  << name(call.collective) << " of type " << call.datatype
                                  << ", rank " << r;
    }
}

// ml-explore/mlx#4072: a NaN was lost that another rank sent.
TEST_P(Poison, OfOneRankReachesAll) {
  std::vector<Case> cases;
  for (const float poison : {kNan, -kNan, kInfinity, -kInfinity})
    for (int rank = 0; rank < kRanks; ++rank)
      for (const size_t at : places())
        cases.push_back(poisoned(Collective::kAllReduce, cases.size() % 2 == 0 ? ncclSum : ncclAvg,
                                 kTypes[cases.size() % 3], at, on_rank(rank, poison)));
  expect_poison(cases);
}

TEST_P(Poison, OfOneRankReachesAllByEveryCollective) {
  std::vector<Case> cases;
  for (size_t k = 1; k <= static_cast<size_t>(Collective::kScatter); ++k) {
    const auto collective = static_cast<Collective>(k);
    if (!serves(collective)) continue;
    for (int rank = 0; rank < kRanks; ++rank)
      for (const size_t at : places())
        cases.push_back(
            poisoned(collective, ncclSum, kTypes[cases.size() % 3], at, on_rank(rank, kNan)));
  }
  expect_poison(cases);
}

TEST_P(Poison, OppositeInfinitiesAreNan) {
  std::vector<Case> cases;
  for (const ncclDataType_t type : kTypes)
    for (const size_t at : places())
      cases.push_back(
          poisoned(Collective::kAllReduce, ncclSum, type, at, {kInfinity, 0, -kInfinity, 0}));
  expect_poison(cases);
}

TEST_P(Poison, OfAMaximumIsNative) {
  std::vector<Case> cases;
  for (const ncclRedOp_t op : {ncclMax, ncclMin})
    for (int rank = 0; rank < kRanks; ++rank)
      cases.push_back(poisoned(Collective::kAllReduce, op, ncclFloat32, 5, on_rank(rank, kNan)));
  const Results got = play(scheme(), kRanks, cases);
  EXPECT_EQ(got.compressed, 0u);
  EXPECT_EQ(got.received, play(kNative, kRanks, cases).received);
}

// Nothing of it is poison.
TEST_P(Poison, IsNeitherMinusZeroNorASubnormalNumber) {
  std::vector<Case> cases;
  for (const float x : {-0.0f, 1e-40f, -1e-40f})
    for (const ncclDataType_t type : kTypes) {
      Case c{.call = {.datatype = type, .count = count()}};
      c.sent.assign(kRanks, bytes_of(Floats(count(), x), type));
      cases.push_back(std::move(c));
    }
  const Results got = play(scheme(), kRanks, cases);
  EXPECT_EQ(got.compressed, cases.size());
  for (size_t i = 0; i < cases.size(); ++i)
    for (const Bytes& received : got.received[i]) {
      EXPECT_EQ(received, got.received[i][0]);
      for (const double x : values(received, cases[i].call.datatype)) ASSERT_LE(std::abs(x), 5e-40);
    }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Poison, kSchemes);

}  // namespace
}  // namespace terse::test
