// Weights that are gathered twice, as the forward and the backward pass do, are the same both
// times, however they are rounded.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

constexpr const char* kSchemes[] = {"minmax4:round=shift", "int4:round=stochastic",
                                    "minmax8:block=1024,round=stochastic"};

Bytes gather(const SchemeHandle& scheme, const Bytes& shard, int ranks, ncclDataType_t type,
             ncclComm_t comm) {
  Bytes all(ranks * shard.size());
  EXPECT_EQ(terseAllGather(shard.data(), all.data(), shard.size() / datatype_size(type), type,
                           scheme.get(), comm, nullptr),
            ncclSuccess)
      << terseGetLastError();
  return all;
}

// As FSDP does it: layers forward and backward, with other calls between.
TEST(RepeatedGathers, OfUnchangedShardsGiveTheSameBytes) {
  constexpr int kRanks = 3, kLayers = 3;
  for (const char* text : kSchemes)
    for (const ncclDataType_t type : {ncclFloat32, ncclBfloat16})
      run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
        const SchemeHandle scheme(text), gradients("int8:round=stochastic");
        for (int step = 0; step < 3; ++step) {
          std::vector<Bytes> shards, forward;
          for (int layer = 0; layer < kLayers; ++layer) {
            shards.push_back(gaussian(3001, type, 100 * step + 10 * layer + rank));
            forward.push_back(gather(scheme, shards.back(), kRanks, type, comm));
          }
          for (int layer = kLayers; layer-- > 0;) {
            EXPECT_EQ(gather(scheme, shards[layer], kRanks, type, comm), forward[layer]) << text;
            Bytes gradient = gaussian(5000, type, rank);
            ASSERT_EQ(terseAllReduce(gradient.data(), gradient.data(), 5000, type, ncclSum,
                                     gradients.get(), comm, nullptr),
                      ncclSuccess);
          }
        }
        EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
      });
}

// One element is enough; and what is drawn for the others has nothing to do with what was.
TEST(RepeatedGathers, OfAChangedShardDrawAnew) {
  for (const char* text : kSchemes)
    run_ranks(2, [&](int rank, ncclComm_t comm) {
      const SchemeHandle scheme(text);
      Bytes shard = gaussian(2048, ncclFloat32, rank);
      const Bytes before = gather(scheme, shard, 2, ncclFloat32, comm);
      // Not the block's largest or smallest, which the grid goes by.
      std::vector<double> x = values(shard, ncclFloat32);
      const size_t least =
          std::ranges::min_element(x, {}, [](double v) { return v * v; }) - x.begin();
      std::vector<float> changed(x.begin(), x.end());
      changed[least] = -changed[least];
      shard = bytes_of(changed, ncclFloat32);
      const Bytes after = gather(scheme, shard, 2, ncclFloat32, comm);
      for (const int of : {0, 1}) {
        const auto a =
            values({before.begin() + of * 8192, before.begin() + (of + 1) * 8192}, ncclFloat32);
        const auto b =
            values({after.begin() + of * 8192, after.begin() + (of + 1) * 8192}, ncclFloat32);
        size_t differ = 0;
        for (size_t i = 0; i < a.size(); ++i) differ += a[i] != b[i];
        EXPECT_GT(differ, a.size() / 10) << text;
      }
      EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    });
}

// The same elements on two ranks are rounded independently.
TEST(RepeatedGathers, RanksDrawApart) {
  run_ranks(2, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme("int4:round=stochastic");
    const Bytes all = gather(scheme, gaussian(2048, ncclFloat32, 1), 2, ncclFloat32, comm);
    EXPECT_FALSE(std::equal(all.begin(), all.begin() + 8192, all.begin() + 8192));
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// QSDP's example (section 3): f(w) = |w|^2 by gradient descent from what is gathered, on a ternary
// grid. To nearest it sticks; with unbiased rounding it comes to zero, within a step of the grid
// that the theorem compares with.
double descend(const char* text) {
  constexpr int kRanks = 2;
  double norms[kRanks] = {};
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(text);
    std::vector<float> w(64);
    std::mt19937 random(static_cast<unsigned>(rank));
    // One element of each block is large, and all others less than half a step from zero.
    for (size_t i = 0; i < w.size(); ++i)
      w[i] = i % 32 == 0 ? 1.0f : 0.1f + 0.3f * static_cast<float>(random() % 1000) / 1000;
    for (int step = 0; step < 400; ++step) {
      const Bytes all = gather(scheme, bytes_of(w, ncclFloat32), kRanks, ncclFloat32, comm);
      const std::vector<double> seen = values(all, ncclFloat32);
      for (size_t i = 0; i < w.size(); ++i)
        if (i % 32 != 0) w[i] -= 0.05f * 2 * static_cast<float>(seen[rank * w.size() + i]);
    }
    for (size_t i = 0; i < w.size(); ++i)
      if (i % 32 != 0) norms[rank] += w[i] * w[i];
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
  return norms[0] + norms[1];
}

TEST(RepeatedGathers, DescentSticksToNearestOnlyOnATernaryGrid) {
  EXPECT_GT(descend("int2:block=32,round=nearest"), 5);       // 124 elements of 0.1 to 0.4
  EXPECT_LT(descend("int2:block=32,round=stochastic"), 1.5);  // where it wanders: 0.1 of a step
  EXPECT_LT(descend("minmax2:block=32,round=shift"), 1.5);
}

// The theorem behind it (section 3): of x <- Q_d(x - eta/beta grad f(x)), d = eta d* / ceil(16
// (beta/alpha)^2), the mean of f comes within what the best point of a random grid of step d* has.
// Here alpha = beta = 2, and the best point of such a grid has d*^2 / 12 in each coordinate.
TEST(RepeatedGathers, DescentOnTheGridItselfStaysWithinTheTheoremsBound) {
  constexpr int kRanks = 2;
  constexpr float kEta = 0.5f;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("minmax6:block=32,round=shift");
    const double d = 2.0 / 63, coarse = 16 * d / kEta;
    std::vector<float> x(1024);
    std::mt19937 random(static_cast<unsigned>(rank));
    double sum = 0;
    size_t n = 0;
    for (int step = 0; step < 200; ++step) {
      for (size_t i = 0; i < x.size(); ++i) {
        // No zero, which would keep the grid of its block from being shifted.
        if (step == 0) x[i] = static_cast<float>(random() % 500 * 2 + 1) / 500 - 1;
        x[i] -= kEta / 2 * 2 * x[i];
        if (i % 32 < 2) x[i] = i % 32 == 0 ? 1.0f : -1.0f;  // by which a block has the step d
      }
      const std::vector<double> all =
          values(gather(scheme, bytes_of(x, ncclFloat32), kRanks, ncclFloat32, comm), ncclFloat32);
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] = static_cast<float>(all[rank * x.size() + i]);
        if (step < 100 || i % 32 < 2) continue;
        sum += x[i] * x[i];
        ++n;
      }
    }
    const double mean = sum / static_cast<double>(n);
    EXPECT_LT(mean, coarse * coarse / 12);
    // What the quantizer adds in a step, d^2 / 12, and what is left of it in the next ones.
    const double settled = d * d / 12 / (1 - (1 - kEta) * (1 - kEta));
    EXPECT_NEAR(mean, settled, 0.05 * settled);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
