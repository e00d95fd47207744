// Which calls are compared with what NCCL gives, and what their errors add up to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/call/pending_group.h"
#include "metered.h"
#include "own_settings.h"
#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using plan::Collective;

// As a training's step does, of which every n-th call would always be the same.
TEST(Comparison, EveryCallOfALoopHasItsTurn) {
  constexpr size_t kSteps = 100;
  run_ranks(2, [&](int, ncclComm_t comm) {
    std::vector<float> data(4096, 1.5f), all(2 * data.size());
    const Scheme scheme = parse_scheme("int8");
    for (size_t k = 0; k < kSteps; ++k) {
      submit(comm,
             {Collective::kAllGather, data.data(), all.data(), data.size(), ncclFloat32, ncclSum,
              nullptr},
             scheme);
      submit(comm,
             {Collective::kAllReduce, data.data(), data.data(), data.size(), ncclFloat32, ncclAvg,
              nullptr},
             scheme);
    }
    Communicator& mine = *communicator(comm);
    mine.metrics().meter().collect();
    const std::vector<Tally> tallies = mine.metrics().meter().tallies();
    ASSERT_EQ(tallies.size(), 2u);
    size_t sum = 0;
    for (const Tally& t : tallies) {
      EXPECT_GT(t.relative.count(), kSteps / 4);
      sum += t.relative.count();
    }
    EXPECT_EQ(sum, compared_of(comm, 2 * kSteps) + !is_compared(comm, 1));
    release_communicator(comm, false);
  });
}

// In a loop whose numbers grow fourfold from call to call the last ones would hide what the others
// lost; here they lose nothing.
TEST(Comparison, TheErrorIsThatOfACallWhereNumbersGrow) {
  constexpr size_t kCount = 4096, kLossy = 16, kLoop = 24;
  const Scheme scheme = parse_scheme("int4");
  run_ranks(4, [&](int rank, ncclComm_t comm) {
    std::vector<double> errors;
    double squares = 0, exact_squares = 0;
    for (size_t k = 0; k < kLoop; ++k) {
      const auto of_rank = [&](int r) {
        std::vector<float> x(kCount, 1.0f);
        if (k < kLossy) {
          const Bytes drawn = gaussian(kCount, ncclFloat32, static_cast<int>(100 * k) + r);
          std::memcpy(x.data(), drawn.data(), drawn.size());
        }
        for (float& value : x) value = std::ldexp(value, static_cast<int>(2 * k));
        return x;
      };
      std::vector<float> data = of_rank(rank);
      std::vector<double> exact(kCount);
      for (int r = 0; r < 4; ++r) {
        const std::vector<float> other = of_rank(r);
        for (size_t i = 0; i < kCount; ++i) exact[i] += other[i];
      }
      submit(
          comm,
          {Collective::kAllReduce, data.data(), data.data(), kCount, ncclFloat32, ncclSum, nullptr},
          scheme);
      if (k != 0 && !is_compared(comm, k)) continue;
      double difference = 0, norm = 0;
      for (size_t i = 0; i < kCount; ++i) {
        difference += (data[i] - exact[i]) * (data[i] - exact[i]);
        norm += exact[i] * exact[i];
      }
      errors.push_back(std::sqrt(difference / norm));
      squares += difference;
      exact_squares += norm;
    }
    std::ranges::sort(errors);
    Communicator& mine = *communicator(comm);
    mine.metrics().meter().collect();
    const Tally t = mine.metrics().meter().tallies().at(0);
    ASSERT_EQ(t.relative.count(), errors.size());
    const double median = errors[(errors.size() - 1) / 2], worst = errors.back();
    EXPECT_GT(median, 0.1);  // what int4 loses
    EXPECT_NEAR(t.relative.median() / median, 1, 0.011);
    EXPECT_NEAR(t.relative.percentile(99) / worst, 1, 1e-4);
    EXPECT_NEAR(t.relative.greatest() / worst, 1, 1e-4);
    EXPECT_EQ(t.relative.zeros, 4u);  // constants are exact
    const double pooled = std::sqrt(squares / exact_squares);
    EXPECT_LT(pooled, 1e-4);
    EXPECT_NEAR(terse::relative_error(t.difference) / pooled, 1, 1e-3);
    terseStats_t stats = mine.metrics().counters().stats();
    mine.metrics().meter().add_to(stats);
    EXPECT_EQ(stats.verified_calls, errors.size());
    EXPECT_NEAR(stats.median_relative_error / median, 1, 0.011);
    EXPECT_NEAR(stats.p99_relative_error / worst, 1, 1e-4);
    EXPECT_NEAR(stats.worst_relative_error / worst, 1, 1e-4);
    EXPECT_NEAR(stats.relative_error / pooled, 1, 1e-3);
    release_communicator(comm, false);
  });
}

TEST(Comparison, CountsWhereOnlyOneResultIsFinite) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    std::vector<float> in(1024, 1.0f), out(in.size());
    if (rank == 0) in[200] = std::numeric_limits<float>::quiet_NaN();
    submit(
        comm,
        {Collective::kAllReduce, in.data(), out.data(), in.size(), ncclFloat32, ncclSum, nullptr},
        parse_scheme("int8:block=128"));
    Communicator& mine = *communicator(comm);
    mine.metrics().meter().collect();
    const Tally t = mine.metrics().meter().tallies().at(0);
    EXPECT_EQ(t.relative.count(), 1u);
    EXPECT_EQ(t.difference.lost, 0u);
    EXPECT_EQ(t.difference.spread, 127u);  // the rest of its block
    EXPECT_EQ(t.difference.squares, 0.0);  // constants are exact
    EXPECT_EQ(t.difference.exact_squares, (1024 - 128) * 4.0);
    release_communicator(comm, false);
  });
}

TEST(Comparison, CallsOfAGroupAreComparedTogether) {
  constexpr int kRanks = 3;
  std::vector<ncclComm_t> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), ncclSuccess);
  const Scheme scheme = parse_scheme("int8");
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(4096, 3.0f));
  for (int k = 0; k < 4; ++k) {
    group_start();
    for (int r = 0; r < kRanks; ++r)
      submit(comms[r],
             {Collective::kAllReduce, data[r].data(), data[r].data(), data[r].size(), ncclFloat32,
              ncclAvg, nullptr},
             scheme);
    group_end();
  }
  for (int r = 0; r < kRanks; ++r) {
    Communicator& c = *communicator(comms[r]);
    c.metrics().meter().collect();
    const Tally t = c.metrics().meter().tallies().at(0);
    EXPECT_EQ(t.calls, 4u);
    EXPECT_EQ(t.timed, 4u);
    EXPECT_EQ(t.relative.count(), compared_of(comms[r], 4));
    EXPECT_LT(terse::relative_error(t.difference), 1e-6);
    release_communicator(comms[r], false);
    ncclCommDestroy(comms[r]);
  }
}

}  // namespace
}  // namespace terse::test
