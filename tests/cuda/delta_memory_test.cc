// AllGathers of differences for which a rank has no memory: NCCL does them on all ranks, and what
// the ranks believe of each other stays true.
#include <barrier>

#include "client_stats.h"
#include "engine/comm/shadows.h"
#include "player.h"

namespace terse::test {
namespace {

constexpr int kRanks = 3, kPoor = 1;
constexpr size_t kCount = 300'000;  // the scratch of their differences is more than what is there

class Gatherer {
 public:
  // After a small call, by which what all such calls need is there; or, `anew`, by which nothing
  // is.
  explicit Gatherer(Player& player, bool anew = false)
      : player_(player), shard_(kCount * sizeof(float)), all_(kRanks * kCount * sizeof(float)) {
    gather(anew ? 0 : 1000);
    stream_.synchronize();
  }

  // The largest error of all that is received, of weights that change by a hundredth each step.
  double error_at(int step) {
    shard_.upload(weights(player_.rank, step), stream_.get());
    all_.upload(Bytes(kRanks * kCount * sizeof(float), '\x77'), stream_.get());
    gather(kCount);
    const std::vector<double> got = values(all_.download(stream_.get()), ncclFloat32);
    double largest = 0;
    for (int r = 0; r < kRanks; ++r) {
      const std::vector<double> want = values(weights(r, step), ncclFloat32);
      for (size_t i = 0; i < kCount; i += 97)
        largest = std::max(largest, std::abs(got[r * kCount + i] - want[i]));
    }
    return largest;
  }

  // The same where calls of the function fail on the poor rank: what is received is exact.
  void expect_exact(int step, const char* function, int times) {
    const bool poor = player_.rank == kPoor;
    if (poor) fake::fail(function, cudaErrorMemoryAllocation, 1, times);
    EXPECT_EQ(error_at(step), 0);
    EXPECT_EQ(fake::failed(), poor) << function << " at step " << step;
  }

  terseStats_t stats() const { return client_stats(player_.comm); }

 private:
  void gather(size_t count) {
    EXPECT_EQ(terseAllGather(shard_.get(), all_.get(), count, ncclFloat32, scheme_.get(),
                             player_.comm, stream_.get()),
              ncclSuccess)
        << terseGetLastError();
  }

  static Bytes weights(int rank, int step) {
    std::vector<float> x(kCount);
    for (size_t i = 0; i < kCount; ++i)
      x[i] = static_cast<float>(i % 1000 + 1000 * rank + 500) * (1 + 0.01f * step);
    return bytes_of(x, ncclFloat32);
  }

  Player& player_;
  const SchemeHandle scheme_{"int8:delta=shadow"};
  const DeviceStream stream_;
  DeviceMemory shard_, all_;
};

// The scratch memory of the second call: the third one sends what the second did.
TEST(DeltaMemory, OfACallLeavesNothingBehindThatWasNotSent) {
  play_ranks(kRanks, [](Player& player) {
    Gatherer gatherer(player);
    EXPECT_EQ(gatherer.error_at(0), 0);
    gatherer.expect_exact(1, "cudaMalloc", 2);
    EXPECT_EQ(gatherer.stats().bypasses[TERSE_BYPASS_FALLBACK], 1u);
    EXPECT_EQ(gatherer.stats().delta_calls, 0u) << "it was none of differences";
    EXPECT_EQ(gatherer.error_at(1), 0) << "in full";
    EXPECT_LT(gatherer.error_at(2), 0.5);
    const terseStats_t stats = gatherer.stats();
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], 3u) << "a small one, and two of these";
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 0u);
    EXPECT_EQ(stats.delta_calls, 1u);
    EXPECT_EQ(stats.delta_unchanged, 0u);
  });
}

// Where that is never there: what all ranks hold they drop together, and never differ in it.
TEST(DeltaMemory, OfDifferencesAloneIsNoReasonToGiveUp) {
  constexpr int kCalls = 30;
  play_ranks(kRanks, [](Player& player) {
    Gatherer gatherer(player);
    for (int call = 0; call < kCalls; ++call) {
      if (call > 0 && player.rank == kPoor)
        fake::fail("cudaMalloc", cudaErrorMemoryAllocation, 1, 2);
      EXPECT_EQ(gatherer.error_at(call), 0) << call;
      fake::failed();
    }
    const terseStats_t stats = gatherer.stats();
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_FALLBACK], kCalls / 2u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DELTA], 0u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], 1 + kCalls / 2u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 0u);
    EXPECT_EQ(stats.delta_calls, 0u);
  });
}

// Calls in full have no scratch memory, and so none can lack it.
TEST(DeltaMemory, OfCallsInFullIsThatOfTheirShadows) {
  play_ranks(kRanks, [](Player& player) {
    Gatherer gatherer(player);
    EXPECT_EQ(gatherer.error_at(0), 0);
    EXPECT_EQ(gatherer.stats().scratch_bytes, 0u);
    EXPECT_EQ(gatherer.stats().delta_full[TERSE_FULL_FIRST], 2u);
    EXPECT_LT(gatherer.error_at(1), 0.5);
    EXPECT_GT(gatherer.stats().scratch_bytes, 0u);
  });
}

// The shadow itself: calls go in full until it can be had.
TEST(DeltaMemory, OfAShadowIsCountedAndAskedForAgain) {
  play_ranks(kRanks, [](Player& player) {
    Gatherer gatherer(player);
    for (int step = 0; step < 3; ++step) gatherer.expect_exact(step, "cudaMalloc", 2);
    EXPECT_EQ(gatherer.error_at(3), 0) << "there is memory now";
    EXPECT_LT(gatherer.error_at(4), 0.5);
    const terseStats_t stats = gatherer.stats();
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], 2u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_MEMORY], 3u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 0u);
    EXPECT_EQ(stats.delta_calls, 1u);
  });
}

// What comparing takes, a few kilobytes: NCCL does the call on all ranks.
TEST(DeltaMemory, ToCompareWithIsNoErrorOnAnyRank) {
  for (const char* function : {"cudaMalloc", "cudaHostAlloc"})
    play_ranks(kRanks, [&](Player& player) {
      const DeviceStream stream;
      Piece before(player, {.scheme = parse_scheme("int8"), .count = 700});
      before.play(0, stream.get());
      Gatherer gatherer(player, true);
      gatherer.expect_exact(0, function, 1);
      EXPECT_EQ(gatherer.stats().bypasses[TERSE_BYPASS_FALLBACK], 1u);
      EXPECT_EQ(gatherer.error_at(1), 0) << "in full";
      EXPECT_LT(gatherer.error_at(2), 0.5);
      EXPECT_EQ(gatherer.stats().delta_full[TERSE_FULL_FIRST], 1u);
      EXPECT_EQ(gatherer.stats().delta_calls, 1u);
    });
}

// Of a group's calls one goes without, and those that have it do not.
TEST(DeltaMemory, ToCompareOneCallWithIsNoErrorOnAnyRank) {
  constexpr size_t kCalls = 40, kElements = 1000;
  play_ranks(kRanks, [&](Player& player) {
    const DeviceStream stream;
    Piece before(player, {.scheme = parse_scheme("int8"), .count = 700});
    before.play(0, stream.get());
    const SchemeHandle scheme("int8:delta=inplace");
    std::vector<std::unique_ptr<DeviceMemory>> all;
    for (size_t i = 0; i < kCalls; ++i)
      all.push_back(std::make_unique<DeviceMemory>(kRanks * kElements * sizeof(float)));
    const auto gather = [&] {
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      for (const auto& recv : all)
        EXPECT_EQ(
            terseAllGather(static_cast<float*>(recv->get()) + player.rank * kElements, recv->get(),
                           kElements, ncclFloat32, scheme.get(), player.comm, stream.get()),
            ncclSuccess);
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    };
    // Two of each call.
    if (player.rank == kPoor) fake::fail("cudaHostAlloc", cudaErrorMemoryAllocation, 2 * 30);
    for (int step = 0; step < 3; ++step) {
      gather();
      stream.synchronize();
    }
    EXPECT_EQ(fake::failed(), player.rank == kPoor);
    const terseStats_t stats = client_stats(player.comm);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_FALLBACK], 1u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], kCalls);
    EXPECT_EQ(stats.delta_unchanged, 2 * kCalls - 1);
  });
}

// Gathers that never come back, each larger than all before: what was freed of one serves another.
TEST(DeltaMemory, OfWhatDoesNotComeBackServesAgain) {
  constexpr size_t kMin = 1030, kMax = 1130;  // of which all take the same room
  ASSERT_EQ(shadow_room(kRanks * kMin * sizeof(float)), shadow_room(kRanks * kMax * sizeof(float)));
  std::barrier together(kRanks);
  play_ranks(kRanks, [&](Player& player) {
    const SchemeHandle scheme("int8:delta=shadow");
    const DeviceStream stream;
    DeviceMemory shard(kMax * sizeof(float)), all(kRanks * kMax * sizeof(float));
    shard.upload(gaussian(kMax, ncclFloat32, player.rank), stream.get());
    const auto gather = [&](size_t count) {
      EXPECT_EQ(terseAllGather(shard.get(), all.get(), count, ncclFloat32, scheme.get(),
                               player.comm, stream.get()),
                ncclSuccess)
          << terseGetLastError();
    };
    const auto allocations = [&] {
      together.arrive_and_wait();
      const size_t now = fake::live().allocations;
      together.arrive_and_wait();
      return now;
    };
    gather(kMin);
    const size_t before = allocations();
    for (size_t count = kMin + 1; count <= kMax; ++count) gather(count);
    stream.synchronize();
    EXPECT_LE(allocations() - before, 40u * kRanks);
  });
}

// Where there is never any, the ranks ask no more.
TEST(DeltaMemory, ThatIsNeverThereIsGivenUp) {
  play_ranks(kRanks, [](Player& player) {
    Gatherer gatherer(player);
    for (int call = 0; call < 30; ++call) {
      if (player.rank == kPoor) fake::fail("cudaMalloc", cudaErrorMemoryAllocation, 1, 2);
      EXPECT_EQ(gatherer.error_at(call), 0);
      fake::failed();
    }
    const terseStats_t stats = gatherer.stats();
    EXPECT_EQ(stats.delta_full[TERSE_FULL_MEMORY], 21u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DELTA], 8u);
  });
}

}  // namespace
}  // namespace terse::test
