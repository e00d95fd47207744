// Groups: one thread for several communicators, several calls on one, native among compressed ones.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "client_stats.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "host_stream.h"
#include "policy/settings.h"
#include "ranks.h"
#include "terse_client.h"
#include "thrown_error.h"

namespace terse::test {
namespace {

using plan::Collective;

class Clique {
 public:
  explicit Clique(int n) : comms(n) {
    if (ncclCommInitAll(comms.data(), n, nullptr) != ncclSuccess)
      throw std::runtime_error(ncclGetLastError(nullptr));
  }
  ~Clique() {
    for (ncclComm_t comm : comms) {
      terseCommRelease(comm);
      ncclCommDestroy(comm);
    }
  }
  std::vector<ncclComm_t> comms;
};

TEST(Group, OneThreadDrivesAllRanks) {
  for (const bool null_stream : {true, false})
    for (const size_t count : {size_t{5}, size_t{40'000}, size_t{1'500'000}}) {
      const Call call{.scheme = parse_scheme("int8"), .count = count, .ordinal = next_ordinal()};
      const Clique clique(4);
      const SchemeHandle scheme(call.scheme);
      std::vector<Bytes> sent, received;
      std::vector<std::unique_ptr<HostStream>> streams;
      for (int r = 0; r < 4; ++r) {
        sent.push_back(gaussian(count, ncclFloat32, r));
        received.emplace_back(count * 4);
        streams.push_back(std::make_unique<HostStream>(null_stream));
      }
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      for (int r = 0; r < 4; ++r)
        ASSERT_EQ(call_terse(call, sent[r].data(), received[r].data(), scheme.get(),
                             clique.comms[r], streams[r]->get()),
                  ncclSuccess);
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
      for (const auto& stream : streams) ASSERT_EQ(stream->synchronize(), ncclSuccess);
      EXPECT_EQ(received, expected(call, sent)) << count;
    }
}

// NCCL would drop the group, too; the other calls' communicators are as they were.
TEST(Group, ACallOnADestroyedCommunicatorLeavesTheOthersAsTheyAre) {
  const Call call{.scheme = parse_scheme("int8"), .count = 5'000, .ordinal = next_ordinal()};
  const Clique one(2);
  ncclComm_t gone = nullptr;
  ASSERT_EQ(ncclCommInitAll(&gone, 1, nullptr), ncclSuccess);
  ASSERT_EQ(ncclCommDestroy(gone), ncclSuccess);
  const SchemeHandle scheme(call.scheme);
  std::vector<Bytes> sent, received;
  for (int r = 0; r < 2; ++r) {
    sent.push_back(gaussian(call.count, ncclFloat32, r));
    received.emplace_back(call.count * 4);
  }
  const auto reduce = [&] {
    for (int r = 0; r < 2; ++r)
      EXPECT_EQ(
          call_terse(call, sent[r].data(), received[r].data(), scheme.get(), one.comms[r], nullptr),
          ncclSuccess);
  };
  ASSERT_EQ(terseGroupStart(), ncclSuccess);
  reduce();
  EXPECT_EQ(call_terse(call, sent[0].data(), received[0].data(), scheme.get(), gone, nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(terseGroupEnd(), ncclInvalidArgument);
  ASSERT_EQ(terseGroupStart(), ncclSuccess);
  reduce();
  ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
  EXPECT_EQ(received, expected(call, sent));
}

TEST(Group, SeveralCallsOnOneCommunicatorAndNativeOnesAmongThem) {
  const uint64_t ordinal = next_ordinal();
  Call first{.scheme = parse_scheme("int4:round=stochastic"), .count = 30'000, .ordinal = ordinal};
  Call second{.collective = Collective::kAllGather,
              .scheme = first.scheme,
              .datatype = ncclBfloat16,
              .count = 777,
              .ordinal = ordinal,
              .sequence = 1};
  std::vector<Bytes> sent1, sent2;
  for (int r = 0; r < 3; ++r) {
    sent1.push_back(gaussian(first.count, ncclFloat32, r));
    sent2.push_back(gaussian(second.count, ncclBfloat16, r));
  }
  const std::vector<Bytes> want1 = expected(first, sent1), want2 = expected(second, sent2);
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(first.scheme);
    Bytes out1(first.count * 4), out2(second.count * 2 * 3);
    std::vector<int32_t> integers(10, rank + 1);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    ASSERT_EQ(call_terse(first, sent1[rank].data(), out1.data(), scheme.get(), comm, nullptr),
              ncclSuccess);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    ASSERT_EQ(terseAllReduce(integers.data(), integers.data(), 10, ncclInt32, ncclMax, scheme.get(),
                             comm, nullptr),
              ncclSuccess);
    ASSERT_EQ(terseGroupEnd(), ncclSuccess);
    ASSERT_EQ(integers[0], rank + 1) << "an inner end launches nothing";
    ASSERT_EQ(call_terse(second, sent2[rank].data(), out2.data(), scheme.get(), comm, nullptr),
              ncclSuccess);
    ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(out1, want1[rank]);
    EXPECT_EQ(out2, want2[rank]);
    EXPECT_EQ(integers, std::vector<int32_t>(10, 3));
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.calls, 2u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DTYPE], 1u);
    terseCommRelease(comm);
  });
}

TEST(Group, CallsOnSeveralStreamsKeepTheirOrder) {
  const uint64_t ordinal = next_ordinal();
  Call call{.scheme = parse_scheme("int8:round=stochastic"), .count = 50'000, .ordinal = ordinal};
  std::vector<Bytes> sent;
  for (int r = 0; r < 2; ++r) sent.push_back(gaussian(call.count, ncclFloat32, r));
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(call.scheme);
    const HostStream streams[2] = {HostStream(false), HostStream(false)};
    std::vector<Bytes> out(6, Bytes(call.count * 4));
    for (int k = 0; k < 6; ++k)
      ASSERT_EQ(call_terse(call, sent[rank].data(), out[k].data(), scheme.get(), comm,
                           streams[k % 2].get()),
                ncclSuccess);
    for (const HostStream& s : streams) ASSERT_EQ(s.synchronize(), ncclSuccess);
    for (int k = 0; k < 6; ++k) {
      Call at = call;
      at.sequence = k;
      ASSERT_EQ(out[k], expected(at, sent)[rank]) << "call " << k;
    }
    terseCommRelease(comm);
  });
}

// As NCCL's do. A call with a root and one that has none go one after the other: each begins when
// both streams have come to the group, and both streams go on when both calls are done.
TEST(Group, IsAsIfPostedOnEachOfItsStreams) {
  next_ordinal();
  constexpr size_t kCount = 100'000;
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("int8");
    const HostStream first(false), second(false);
    const std::vector<float> ones(kCount, 1.0f);
    std::vector<float> a(kCount), b(kCount), reduced(kCount), after_first, after_second;
    SlowCopy<float> fill_a{ones, a, std::chrono::milliseconds(50)};
    SlowCopy<float> fill_b{ones, b, std::chrono::milliseconds(5)};
    ASSERT_EQ(fill_a.on(second.get()), ncclSuccess);
    ASSERT_EQ(fill_b.on(first.get()), ncclSuccess);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    ASSERT_EQ(terseReduce(a.data(), reduced.data(), kCount, ncclFloat32, ncclSum, 0, scheme.get(),
                          comm, first.get()),
              ncclSuccess);
    ASSERT_EQ(terseAllReduce(b.data(), b.data(), kCount, ncclFloat32, ncclSum, scheme.get(), comm,
                             second.get()),
              ncclSuccess);
    ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    SlowCopy<float> see_b{b, after_first}, see_reduced{reduced, after_second};
    ASSERT_EQ(see_b.on(first.get()), ncclSuccess);
    ASSERT_EQ(see_reduced.on(second.get()), ncclSuccess);
    ASSERT_EQ(first.synchronize(), ncclSuccess);
    ASSERT_EQ(second.synchronize(), ncclSuccess);
    const std::vector<float> twos(kCount, 2.0f);
    EXPECT_EQ(after_first, twos);
    EXPECT_EQ(after_second, rank == 0 ? twos : std::vector<float>(kCount));
    terseCommRelease(comm);
  });
}

// A group of an AllReduce on `one`, by `scheme`, and `refused` on `other`, by auto, which waits for
// what the ranks tell each other at its end, and then is refused for `cause`.
void expect_refused_at_the_end(ncclComm_t one, const Scheme& scheme, ncclComm_t other,
                               const Request& refused, const char* cause) {
  static const Settings own = [] {
    Settings s = settings();
    s.profile.reset();
    return s;
  }();
  const Scheme automatic = parse_scheme("auto"), int8 = parse_scheme("int8");
  std::vector<float> data(1000, 1.0f);
  const auto sum = [&](ncclComm_t comm, const Scheme& by) {
    submit(comm, {Collective::kAllReduce, data.data(), data.data(), 1000, ncclFloat32}, by, own);
  };
  group_start();
  sum(one, scheme);
  submit(other, refused, automatic, own);
  const std::string error = error_of([] { group_end(); });
  EXPECT_NE(error.find(cause), std::string::npos) << error;
  const std::string after = error_of([&] { sum(one, int8); });
  for (const char* part : {", rank ", "may be at different calls", cause})
    EXPECT_NE(after.find(part), std::string::npos) << after;
  EXPECT_EQ(data, std::vector<float>(1000, 1.0f));
  EXPECT_EQ(error_of([&] { sum(other, int8); }), "none");
  EXPECT_EQ(data, std::vector<float>(1000, 2.0f));
}

// On all ranks of its communicator alike; others may have made the other's call.
TEST(Group, OfWhichACallIsRefusedAtTheEndBreaksOffTheOthers) {
  std::vector<float> x(1000, 1.0f);
  const struct {
    const char* scheme;  // of the other one
    Request refused;
    const char* cause;
  } cases[] = {{"int8", {Collective::kAllReduce, x.data(), x.data(), 1000}, "auto needs a profile"},
               {"auto", {Collective::kSend, x.data(), nullptr, 1000}, "the number of nodes"}};
  for (const auto& c : cases) {
    next_ordinal();
    run_ranks(2, [&](int rank, ncclComm_t one) {
      ncclComm_t other = nullptr;
      ASSERT_EQ(ncclCommSplit(one, 0, rank, &other, nullptr), ncclSuccess);
      Request refused = c.refused;
      refused.root = 1 - rank;  // the peer
      expect_refused_at_the_end(one, parse_scheme(c.scheme), other, refused, c.cause);
      for (const ncclComm_t comm : {one, other}) release_communicator(comm, false);
      EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
    });
  }
}

// Calls on one stream, or that are to be done on return, which do not all fit beside each other: a
// rank may have those of all communicators in one group, another one a group for each of them.
class UnlikeGroups : public testing::TestWithParam<bool> {};

TEST_P(UnlikeGroups, OfSeveralCommunicatorsMeet) {
  constexpr size_t kCount = 1 << 20;
  run_ranks(2, [&](int rank, ncclComm_t one) {
    const HostStream stream(GetParam());
    const SchemeHandle scheme("int8");
    ncclComm_t other = nullptr;
    ASSERT_EQ(ncclCommSplit(one, 0, rank, &other, nullptr), ncclSuccess);
    std::vector<std::vector<float>> data(4, std::vector<float>(kCount, 1.0f));
    const auto sum = [&](size_t i) {
      const ncclComm_t comm = i < 2 ? one : other;
      EXPECT_EQ(terseAllReduce(data[i].data(), data[i].data(), kCount, ncclFloat32, ncclSum,
                               scheme.get(), comm, stream.get()),
                ncclSuccess)
          << terseGetLastError();
    };
    for (const size_t i : {0, 2}) sum(i);  // each kind once on its own before (LIMITS)
    using Groups = std::vector<std::vector<size_t>>;
    for (const auto& group : rank == 0 ? Groups{{0, 1, 2, 3}} : Groups{{0, 1}, {2, 3}}) {
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      for (const size_t i : group) sum(i);
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    }
    ASSERT_EQ(stream.synchronize(), ncclSuccess);
    for (const size_t i : {0, 1, 2, 3})
      EXPECT_EQ(data[i], std::vector<float>(kCount, i % 2 == 0 ? 4.0f : 2.0f)) << i;
    for (const ncclComm_t comm : {one, other}) EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(other), ncclSuccess);
  });
}

INSTANTIATE_TEST_SUITE_P(Group, UnlikeGroups, testing::Bool(),
                         [](const auto& p) { return p.param ? "ToBeDoneOnReturn" : "OnAStream"; });

TEST(Group, AnErrorInsideIsReturnedAtTheEndAndNothingRuns) {
  next_ordinal();
  run_ranks(2, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int8"));
    std::vector<float> data(1000, 2.0f);
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    ASSERT_EQ(terseAllReduce(data.data(), data.data(), 1000, ncclFloat32, ncclSum, scheme.get(),
                             comm, nullptr),
              ncclSuccess);
    ASSERT_EQ(terseAllReduce(nullptr, data.data(), 1000, ncclFloat32, ncclSum, scheme.get(), comm,
                             nullptr),
              ncclInvalidArgument);
    ASSERT_EQ(terseGroupEnd(), ncclInvalidArgument);
    EXPECT_NE(std::string(terseGetLastError()).find("sendbuff is null"), std::string::npos);
    EXPECT_EQ(data, std::vector<float>(1000, 2.0f));
    ASSERT_EQ(terseGroupEnd(), ncclInvalidUsage) << "the group is over";
    terseCommRelease(comm);
  });
}

}  // namespace
}  // namespace terse::test
