// AllGathers of differences as programs have them: groups of buckets, layers gathered in any order,
// buffers that do not last, many steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "delta_caller.h"
#include "ranks.h"

namespace terse::test {
namespace {

// Of a group that failed on this rank alone, others may have what they wait for; who begins anew on
// all ranks, as here, begins in full.
TEST(Delta, AfterOneThatDidNotComeToItThereIsNone) {
  constexpr int kRanks = 3;
  constexpr size_t kBeyondMemory = size_t{1} << 46;  // beyond all addresses, too
  const SchemeHandle int8("int8");
  for (const char* scheme : {"int8:delta=inplace", "int8:delta=shadow"})
    run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
      const Caller caller(rank, kRanks, comm, scheme);
      ncclComm_t other;
      ASSERT_EQ(ncclCommSplit(comm, 0, rank, &other, nullptr), ncclSuccess);
      Bytes recv(kRanks * Caller::kBytes);
      caller.gather(recv, 0, 0);
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      caller.gather(recv, 0, 1);
      const int next = (rank + 1) % kRanks, last = (rank + kRanks - 1) % kRanks;
      ASSERT_EQ(
          terseSend(recv.data(), kBeyondMemory, ncclFloat16, next, int8.get(), other, nullptr),
          ncclSuccess);
      ASSERT_EQ(
          terseRecv(recv.data(), kBeyondMemory, ncclFloat16, last, int8.get(), other, nullptr),
          ncclSuccess);
      ASSERT_NE(terseGroupEnd(), ncclSuccess);
      const Bytes before = recv;
      EXPECT_NE(caller.try_to_gather(recv), ncclSuccess);
      EXPECT_NE(std::string(terseGetLastError()).find("good for nothing but to be aborted"),
                std::string::npos)
          << terseGetLastError();
      EXPECT_EQ(recv, before);
      for (ncclComm_t each : {comm, other}) EXPECT_EQ(terseCommRelease(each), ncclSuccess);
      caller.gather(recv, 0, 1);
      EXPECT_LT(caller.error(recv, 0, 1), 1e-30) << scheme;
      EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_FIRST], 1u);
      EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
    });
}

// As Megatron gathers the buckets of a group of them.
TEST(Delta, CallsOfAGroupAreEachOfTheirOwnBuffer) {
  constexpr int kRanks = 3;
  constexpr size_t kBuckets = 50;  // more than are compared at once
  for (const char* scheme : {"int8:delta=inplace", "int8:delta=shadow"})
    run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
      const Caller caller(rank, kRanks, comm, scheme);
      std::vector<Bytes> recv(kBuckets, Bytes(kRanks * Caller::kBytes));
      for (int step = 0; step < 4; ++step) {
        ASSERT_EQ(terseGroupStart(), ncclSuccess);
        for (size_t b = 0; b < kBuckets; ++b) caller.gather(recv[b], b, step);
        ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
        for (size_t b = 0; b < kBuckets; ++b)
          EXPECT_LT(caller.error(recv[b], b, step), step == 0 ? 1e-30 : 5e-5) << scheme;
      }
      EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_FIRST], kBuckets);
      EXPECT_EQ(caller.stats().delta_calls, 3 * kBuckets);
      EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    });
}

// The forward pass gathers in one order, the backward pass in the other; buffers are anyhow.
TEST(Delta, ShadowsFollowWhatIsSentWhereverItComesTo) {
  constexpr int kRanks = 2, kLayers = 5;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int4:block=2048,delta=shadow");
    std::mt19937 random(static_cast<unsigned>(rank));  // each rank allocates in its own way
    std::vector<Bytes> recv(3, Bytes(kRanks * Caller::kBytes));
    for (int step = 0; step < 3; ++step)
      for (int i = 0; i < 2 * kLayers; ++i) {
        const size_t layer = i < kLayers ? i : 2 * kLayers - 1 - i;
        Bytes& buffer = recv[random() % recv.size()];
        caller.gather(buffer, layer, step);
        EXPECT_LT(caller.error(buffer, layer, step), step == 0 ? 1e-30 : 1e-3);
      }
    EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_FIRST], size_t{kLayers});
    EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_OTHERS], 0u);
    EXPECT_EQ(caller.stats().delta_calls, 2u * kLayers);
    EXPECT_EQ(caller.stats().delta_unchanged, 3u * kLayers);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// A change that is the same for all words is one, too: of as many as a power of two its sum is one
// of high powers of two.
TEST(Delta, OfConstantsThatHaveChangedIsSent) {
  constexpr size_t kCount = size_t{1} << 22;
  run_ranks(2, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme("int8:delta=shadow");
    Floats send(kCount), recv(2 * kCount);
    for (const float constant : {4.0f, 5.0f, 6.0f, 7.0f}) {
      std::ranges::fill(send, constant);
      ASSERT_EQ(terseAllGather(send.data(), recv.data(), kCount, ncclFloat32, scheme.get(), comm,
                               nullptr),
                ncclSuccess)
          << terseGetLastError();
      for (const float x : recv) ASSERT_NEAR(x, constant, 1e-5);
    }
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// What others hold of a range that becomes exact is not.
TEST(Delta, ExclusionsHoldFromTheNextGatherOnThoughNothingHasChanged) {
  constexpr int kRanks = 2;
  constexpr terseRange_t kRange{100, 50};  // of rank 0's shard
  for (const char* scheme : {"int4:delta=inplace", "int4:delta=shadow"})
    run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
      const Caller caller(rank, kRanks, comm, scheme);
      Bytes recv(kRanks * Caller::kBytes);
      for (const int step : {0, 1}) caller.gather(recv, 0, step);
      EXPECT_EQ(caller.stats().delta_calls, 1u);
      ASSERT_EQ(terseCommExclude(comm, kRanks * Caller::kCount, &kRange, 1), ncclSuccess);
      caller.gather(recv, 0, 1);
      const auto of_range = [&](const Bytes& shard) {
        const char* const at = shard.data() + kRange.first * sizeof(float);
        return Bytes(at, at + kRange.count * sizeof(float));
      };
      EXPECT_EQ(of_range(recv), of_range(Caller::weights(0, 0, 1))) << scheme;
      EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    });
}

// What was gathered before is not what the ranks then would hold: no rank is to blame for that.
TEST(Delta, AfterNewExclusionsTheNextCallIsAFirstOne) {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 1000;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int8:delta=shadow");
    const SchemeHandle scheme("int8:delta=shadow");
    Floats recv(kRanks * kCount);
    for (size_t first = 0; first < 3; ++first) {
      const terseRange_t range{first, 5};
      ASSERT_EQ(terseCommExclude(comm, kRanks * kCount, &range, 1), ncclSuccess)
          << terseGetLastError();
      for (int call = 0; call < 2; ++call) {
        const Floats send(kCount, 1.0f + 0.01f * static_cast<float>(rank + call));
        ASSERT_EQ(terseAllGather(send.data(), recv.data(), kCount, ncclFloat32, scheme.get(), comm,
                                 nullptr),
                  ncclSuccess)
            << terseGetLastError();
      }
    }
    EXPECT_EQ(caller.stats().delta_calls, 3u);
    EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_FIRST], 3u);
    EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_OTHERS], 0u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// SDP4Bit's 4.016 bits an element, and nothing where nothing has changed.
TEST(Delta, SendsTheFormatsBitsAnElement) {
  constexpr int kRanks = 3;
  constexpr size_t kCount = size_t{1} << 18;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("int4:block=2048,delta=inplace,own=exact");
    Bytes recv = gaussian(kRanks * kCount, ncclFloat32, 1);
    char* const own = recv.data() + rank * kCount * sizeof(float);
    const auto sent_by_a_call = [&] {
      terseStats_t before{.size = sizeof before}, after{.size = sizeof after};
      EXPECT_EQ(terseCommGetStats(comm, &before), ncclSuccess);
      EXPECT_EQ(terseAllGather(own, recv.data(), kCount, ncclFloat32, scheme.get(), comm, nullptr),
                ncclSuccess);
      EXPECT_EQ(terseCommGetStats(comm, &after), ncclSuccess);
      return 8.0 * static_cast<double>(after.wire_bytes - before.wire_bytes) / (kRanks - 1) /
             kCount;
    };
    EXPECT_EQ(sent_by_a_call(), 32);  // in full
    Floats weights = floats_of(Bytes(own, own + kCount * sizeof(float)), ncclFloat32);
    for (float& w : weights) w *= 1.01f;
    std::ranges::copy(bytes_of(weights, ncclFloat32), own);
    EXPECT_EQ(sent_by_a_call(), 4 + 32.0 / 2048);
    EXPECT_EQ(sent_by_a_call(), 0);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// A buffer that also takes gradients is never again what it was.
TEST(Delta, IsGivenUpWhereBuffersDoNotLast) {
  constexpr int kRanks = 2;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int4:delta=inplace");
    Bytes recv(kRanks * Caller::kBytes);
    for (int step = 0; step < 30; ++step) {
      std::ranges::fill(recv, static_cast<char>(step));
      caller.gather(recv, 0, step);
      EXPECT_EQ(caller.error(recv, 0, step), 0);
    }
    const terseStats_t stats = caller.stats();
    EXPECT_EQ(stats.delta_calls, 0u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 21u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DELTA], 8u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// One rank's framework gathers into ever new memory: all ranks come to stop asking at one call.
TEST(Delta, IsGivenUpByAllRanksAtOnce) {
  constexpr int kRanks = 3, kCalls = 40;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int4:delta=inplace");
    std::deque<Bytes> buffers(1, Bytes(kRanks * Caller::kBytes));
    for (int step = 0; step < kCalls; ++step) {
      if (rank == 1) buffers.emplace_back(kRanks * Caller::kBytes);
      caller.gather(buffers.back(), 0, step);
      EXPECT_EQ(caller.error(buffers.back(), 0, step), 0);
    }
    const terseStats_t stats = caller.stats();
    EXPECT_EQ(stats.delta_calls, 0u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], 1u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 21u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DELTA], kCalls - 22u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Norms begin as all ones, in every layer: what tells them apart comes later. The last one is
// frozen.
TEST(Delta, CallsOfAGroupThatSendAlikeHaveEachTheirOwnShadow) {
  constexpr int kRanks = 2;
  constexpr size_t kLayers = 3, kCount = Caller::kCount, kBytes = Caller::kBytes;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int8:delta=shadow");
    const SchemeHandle scheme("int8:delta=shadow");
    const auto norm = [](int of_rank, size_t layer, int step) {
      std::mt19937 random(static_cast<unsigned>(of_rank * kLayers + layer));
      Normal normal;
      Floats all(kCount, 1.0f);
      if (step > 0 && layer + 1 < kLayers)
        for (float& x : all) x += 0.02f * normal(random) + 0.001f * static_cast<float>(step);
      return all;
    };
    std::vector<Bytes> recv(kLayers, Bytes(kRanks * kBytes));
    for (int step = 0; step < 4; ++step) {
      std::vector<Bytes> send;
      for (size_t layer = 0; layer < kLayers; ++layer)
        send.push_back(bytes_of(norm(rank, layer, step), ncclFloat32));
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      for (size_t layer = 0; layer < kLayers; ++layer)
        ASSERT_EQ(terseAllGather(send[layer].data(), recv[layer].data(), kCount, ncclFloat32,
                                 scheme.get(), comm, nullptr),
                  ncclSuccess);
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
      for (size_t layer = 0; layer < kLayers; ++layer) {
        const Floats got = floats_of(recv[layer], ncclFloat32);
        for (int r = 0; r < kRanks; ++r) {
          const Floats want = norm(r, layer, step);
          for (size_t i = 0; i < kCount; i += 99)
            EXPECT_NEAR(got[r * kCount + i], want[i], 5e-4)
                << "layer " << layer << " step " << step;
        }
      }
    }
    EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_FIRST], kLayers);
    EXPECT_EQ(caller.stats().delta_calls, 3 * (kLayers - 1));
    EXPECT_EQ(caller.stats().delta_unchanged, 3u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

TEST(Delta, IsForAllGatherAlone) {
  run_ranks(2, [](int, ncclComm_t comm) {
    const SchemeHandle scheme("int4:delta=inplace");
    Floats data(100, 1.0f);
    ASSERT_EQ(terseAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum,
                             scheme.get(), comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(data, Floats(100, 2.0f));
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_COLLECTIVE], 1u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

struct Walk {
  float rate;   // of a step
  double most;  // relative error at the end; bf16's own is 1.66e-3
};

class DeltaErrors : public testing::TestWithParam<Walk> {};

// What is left out of a difference is part of the next one: over many steps the error stays that of
// one, and of bf16 itself.
TEST_P(DeltaErrors, DoNotAddUp) {
  constexpr int kRanks = 2;
  constexpr size_t kElements = 20'000;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("int4:block=2048,delta=inplace,own=quantized");
    std::mt19937 random(static_cast<unsigned>(rank));
    Normal normal;
    Floats weights(kElements);
    for (float& x : weights) x = 0.08f * normal(random);
    Bytes recv(kRanks * kElements * 2);
    for (int step = 0; step < 300; ++step) {
      for (float& x : weights) x += GetParam().rate * normal(random);
      const Bytes sent = bytes_of(weights, ncclBfloat16);
      ASSERT_EQ(terseAllGather(sent.data(), recv.data(), kElements, ncclBfloat16, scheme.get(),
                               comm, nullptr),
                ncclSuccess)
          << terseGetLastError();
    }
    const std::vector<double> all = values(recv, ncclBfloat16);
    const std::vector<double> own(all.begin() + rank * kElements,
                                  all.begin() + (rank + 1) * kElements);
    EXPECT_LT(relative_error(own, {weights.begin(), weights.end()}), GetParam().most);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}
INSTANTIATE_TEST_SUITE_P(Delta, DeltaErrors,
                         testing::Values(Walk{1e-3f, 2.5e-3}, Walk{1e-4f, 1.8e-3},
                                         Walk{1e-5f, 1.7e-3}));

}  // namespace
}  // namespace terse::test
