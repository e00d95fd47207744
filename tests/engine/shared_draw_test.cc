// Contributors to a sum share their draws: the error of stochastic rounding is that of nearest, and
// every sum stays unbiased.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "reference.h"

namespace terse::test {
namespace {

using plan::Collective;

Call scatter_of(const std::string& scheme, size_t count, std::vector<int> node = {}) {
  return {.collective = Collective::kReduceScatter,
          .scheme = parse_scheme(scheme),
          .count = count,
          .node = std::move(node)};
}

// What all ranks send to a ReduceScatter, by a function of rank and element.
std::vector<Bytes> sent_by(const Call& call, int ranks,
                           const std::function<float(int, size_t)>& value) {
  std::vector<Bytes> sent;
  for (int r = 0; r < ranks; ++r) {
    std::vector<float> x(send_count(call, ranks));
    for (size_t i = 0; i < x.size(); ++i) x[i] = value(r, i);
    sent.push_back(bytes_of(x, ncclFloat32));
  }
  return sent;
}

std::vector<Bytes> gaussian_of(const Call& call, int ranks, int seed = 0) {
  std::vector<Bytes> sent;
  for (int r = 0; r < ranks; ++r)
    sent.push_back(gaussian(send_count(call, ranks), ncclFloat32, 100 * seed + r));
  return sent;
}

double error_of(const Call& call, const std::vector<Bytes>& sent) {
  return relative_error(values(expected(call, sent)[0], ncclFloat32), exact(call, sent)[0]);
}

TEST(SharedDraw, ThreeRanksErrAsToNearest) {
  const Call nearest = scatter_of("int4", 1 << 14),
             stochastic = scatter_of("int4:round=stochastic", 1 << 14);
  const auto sent = gaussian_of(nearest, 3);
  EXPECT_LT(error_of(stochastic, sent), 1.025 * error_of(nearest, sent));
}

TEST(SharedDraw, AnyNumberOfRanksErrsAsToNearest) {
  for (int ranks = 3; ranks <= 16; ++ranks) {
    const Call nearest = scatter_of("int4", 1 << 14),
               stochastic = scatter_of("int4:round=stochastic", 1 << 14);
    const auto sent = gaussian_of(nearest, ranks);
    EXPECT_LT(error_of(stochastic, sent), 1.025 * error_of(nearest, sent)) << ranks;
  }
}

// Of two contributors none has a partner where one of them is the owner.
TEST(SharedDraw, TwoRanksErrAsBefore) {
  const Call nearest = scatter_of("int4", 1 << 14),
             stochastic = scatter_of("int4:round=stochastic", 1 << 14);
  const auto sent = gaussian_of(nearest, 2);
  EXPECT_NEAR(error_of(stochastic, sent) / error_of(nearest, sent), std::sqrt(2), 0.03);
}

TEST(SharedDraw, TwoLevelsErrAsToNearest) {
  const std::vector<std::vector<int>> topologies = {
      {0, 0, 1, 1}, {0, 0, 0, 1, 1, 1}, {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1, 0, 1}};
  for (const std::vector<int>& node : topologies)
    for (const std::string intra : {"", ",intra=int8", ",intra=off"}) {
      const Call nearest = scatter_of("int4", 1 << 14, node),
                 stochastic = scatter_of("int4:round=stochastic" + intra, 1 << 14, node);
      const auto sent = gaussian_of(nearest, static_cast<int>(node.size()));
      // Of two neighbours one contributes alone within a node, which int8 and raw shards hide.
      if (intra.empty() && std::ranges::count(node, 0) == 2) continue;
      EXPECT_LT(error_of(stochastic, sent), 1.025 * error_of(nearest, sent))
          << node.size() << intra;
    }
}

struct Data {
  const char* name;
  float (*value)(int rank, size_t element);
};

// Fractions of 4-bit codes: each block has the element 7, so that codes are the integers.
constexpr float anchored(size_t element, float value) { return element % 128 == 0 ? 7.0f : value; }
constexpr Data kData[] = {
    {"constant fractions", [](int, size_t i) { return anchored(i, 1.3f); }},
    {"ties", [](int rank, size_t i) { return anchored(i, static_cast<float>(rank) - 2.5f); }},
    {"all ranks alike", [](int, size_t i) { return anchored(i, static_cast<float>(i % 97) / 17); }},
    {"one rank alone", [](int rank, size_t i) { return rank == 1 ? anchored(i, 0.3f) : 0.0f; }}};

// Over many seeds the mean error is as much smaller as chance has it.
TEST(SharedDraw, SumsAreUnbiased) {
  constexpr int kSeeds = 400;
  constexpr size_t kCount = 512;
  const std::vector<std::vector<int>> topologies = {{}, {0, 0, 1, 1}, {0, 0, 1, 1, 2, 2}};
  for (const Data& data : kData)
    for (const int ranks : {2, 3, 4, 5, 8})
      for (const std::vector<int>& node : topologies) {
        if (!node.empty() && node.size() != static_cast<size_t>(ranks)) continue;
        SCOPED_TRACE(testing::Message() << data.name << ", " << ranks << " ranks, " << node.size());
        Call call = scatter_of("int4:round=stochastic", kCount, node);
        const auto sent = sent_by(call, ranks, data.value);
        const auto truth = exact(call, sent);
        std::vector<std::vector<double>> mean(ranks, std::vector<double>(kCount));
        double square = 0, mean_square = 0;
        for (int seed = 0; seed < kSeeds; ++seed) {
          call.scheme.seed = seed;
          const auto got = expected(call, sent);
          for (int r = 0; r < ranks; ++r) {
            const auto x = values(got[r], ncclFloat32);
            for (size_t i = 0; i < kCount; ++i) {
              const double error = x[i] - truth[r][i];
              mean[r][i] += error / kSeeds;
              square += error * error / kSeeds;
            }
          }
        }
        for (const auto& of_rank : mean)
          for (const double x : of_rank) mean_square += x * x;
        EXPECT_LT(std::sqrt(mean_square), 1.1 * std::sqrt(square / kSeeds) + 1e-9);
      }
}

// Groups make the same calls of other elements on communicators of their own, and draw alike: a sum
// over them errs no more than with seeds of their own.
TEST(SharedDraw, GroupsThatDrawAlikeErrNoMoreTogether) {
  constexpr int kGroups = 8, kRanks = 4;
  constexpr size_t kCount = 1 << 13;
  const auto error = [&](bool own_seeds) {
    std::vector<double> sum(kCount), truth(kCount);
    for (int g = 0; g < kGroups; ++g) {
      Call call = scatter_of("int4:round=stochastic", kCount);
      if (own_seeds) call.scheme.seed = 10 + g;
      const auto sent = gaussian_of(call, kRanks, g);
      const auto got = values(expected(call, sent)[0], ncclFloat32);
      const auto wanted = exact(call, sent)[0];
      for (size_t i = 0; i < kCount; ++i) sum[i] += got[i], truth[i] += wanted[i];
    }
    return relative_error(sum, truth);
  };
  EXPECT_LT(error(false), 1.03 * error(true));
}

}  // namespace
}  // namespace terse::test
