// Groups: nesting, order, errors, several communicators, point-to-point in every pattern.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "free_port.h"
#include "reference.h"
#include "streams.h"

namespace hostnccl_test {
namespace {

TEST(Group, EndWithoutStartIsInvalidUsage) {
  EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
  EXPECT_NCCL(ncclGroupStart());
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
}

TEST(Group, NestedGroupsLaunchAtTheOutermostEnd) {
  const Clique clique(2);
  int value[2] = {1, 2};
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 2; ++r) {
    ASSERT_NCCL(ncclGroupStart());
    ASSERT_NCCL(ncclAllReduce(&value[r], &value[r], 1, ncclInt32, ncclSum, clique[r], nullptr));
    ASSERT_NCCL(ncclGroupEnd());
    EXPECT_EQ(value[0], 1);
  }
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(value[0], 3);
  EXPECT_EQ(value[1], 3);
}

TEST(Group, AnErrorIsReturnedAtTheEndAndNothingLaunches) {
  const Clique clique(2);
  int value[2] = {1, 2};
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 2; ++r) {
    EXPECT_NCCL(ncclAllReduce(&value[r], &value[r], 1, ncclInt32, ncclSum, clique[r], nullptr));
  }
  EXPECT_EQ(ncclInvalidArgument, ncclSend(&value[0], 1, ncclInt32, /*peer=*/7, clique[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclGroupEnd());
  EXPECT_EQ(value[0], 1);
  // The next group is a clean one.
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&value[r], &value[r], 1, ncclInt32, ncclSum, comm, nullptr);
  }));
  EXPECT_EQ(value[1], 3);
}

// Calls, that is, and communicators to be made; what has nothing to do with it does not matter.
TEST(Group, OnlyWhatIsPartOfItFailsIt) {
  const Clique clique(1);
  int in = 1, out = 0;
  ASSERT_NCCL(ncclGroupStart());
  EXPECT_EQ(ncclInvalidArgument, ncclCommCount(clique[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclMemAlloc(nullptr, 1));
  EXPECT_EQ(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, clique[0]));
  EXPECT_EQ(ncclInvalidArgument, hostncclStreamCreate(nullptr));
  EXPECT_NCCL(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, clique[0], nullptr));
  EXPECT_NCCL(ncclGroupEnd());
  EXPECT_EQ(out, 1);

  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t made;
  for (const bool splits : {true, false}) {
    ASSERT_NCCL(ncclGroupStart());
    EXPECT_EQ(ncclInvalidArgument, splits ? ncclCommSplit(clique[0], -7, 0, &made, nullptr)
                                          : ncclCommInitRank(&made, 1, id, 1));
    EXPECT_EQ(ncclInvalidArgument, ncclGroupEnd());
  }
}

TEST(Group, CollectivesRunInTheOrderOfTheCalls) {
  const Clique clique(3);
  std::vector<int> value = {1, 2, 3};
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    int* x = &value[static_cast<size_t>(r)];
    for (int i = 0; i < 4; ++i) {
      const ncclResult_t result = ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, nullptr);
      if (result != ncclSuccess) return result;
    }
    return ncclBroadcast(x, x, 1, ncclInt32, 2, comm, nullptr);
  }));
  EXPECT_EQ(value, (std::vector<int>{162, 162, 162}));
}

using Pair = std::array<ncclComm_t, 2>;

// Two communicators on one stream, to which two ranks come in opposite orders.
void expect_one_order(const Pair& first, const Pair& second) {
  using Clock = std::chrono::steady_clock;
  const Stream streams[2];
  for (int round = 0; round < 2; ++round) {
    int a[2] = {1, 2}, b[2] = {10, 20};
    for (int r = 0; r < 2; ++r) {
      ASSERT_NCCL(ncclGroupStart());
      for (int i = 0; i < 2; ++i) {
        const bool is_first = (i == 0) == (r == round);
        int* const x = is_first ? &a[r] : &b[r];
        const ncclComm_t comm = is_first ? first[r] : second[r];
        ASSERT_NCCL(ncclAllReduce(x, x, 1, ncclInt32, ncclSum, comm, streams[r]));
      }
      ASSERT_NCCL(ncclGroupEnd());
    }
    const auto limit = Clock::now() + std::chrono::seconds(20);
    for (const Stream& stream : streams) {
      while (hostncclStreamQuery(stream) == ncclInProgress && Clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (hostncclStreamQuery(stream) == ncclInProgress) {
        for (int r = 0; r < 2; ++r) EXPECT_NCCL(ncclCommRevoke(first[r], 0));
        FAIL() << "they wait for each other";
      }
    }
    EXPECT_EQ(a[0] + a[1], 6);
    EXPECT_EQ(b[0] + b[1], 60);
  }
}

TEST(Group, SeveralCommunicatorsOnOneStreamHaveOneOrder) {
  const Clique first(2), second(2);
  expect_one_order({first[0], first[1]}, {second[0], second[1]});
}

// By their ids they are all alike.
TEST(Group, SeveralCommunicatorsOfOneAddressHaveOneOrder) {
  const std::string address = "127.0.0.1:" + std::to_string(terse::test::free_port());
  setenv("NCCL_COMM_ID", address.c_str(), 1);
  Pair comms[2] = {};
  for (Pair& pair : comms) {
    ncclUniqueId id;
    ASSERT_NCCL(ncclGetUniqueId(&id));
    on_threads(2, [&](int rank) {
      EXPECT_NCCL(ncclCommInitRank(&pair[static_cast<size_t>(rank)], 2, id, rank));
    });
  }
  unsetenv("NCCL_COMM_ID");
  ASSERT_FALSE(HasFailure());
  expect_one_order(comms[0], comms[1]);
  for (const Pair& pair : comms)
    for (ncclComm_t comm : pair) EXPECT_NCCL(ncclCommDestroy(comm));
}

// Two threads, each with a communicator of its own, on the same two streams.
class SharedStreams : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(BothInGroups, SharedStreams, ::testing::Bool());

TEST_P(SharedStreams, LaunchesHaveOneOrder) {
  using Clock = std::chrono::steady_clock;
  const Clique cliques[2] = {Clique(1), Clique(1)};
  const Stream streams[2];
  std::atomic<int> rounds{0}, running{2};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t, in_groups = t == 0 || GetParam()] {
      int x = 1;
      for (int round = 0; round < 5000 && !::testing::Test::HasFailure(); ++round, ++rounds) {
        if (in_groups) {
          EXPECT_NCCL(ncclGroupStart());
        }
        for (const Stream& stream : streams)
          EXPECT_NCCL(ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, cliques[t][0], stream));
        if (in_groups) {
          EXPECT_NCCL(ncclGroupEnd());
        }
        if (round % 16 != 15) continue;
        for (const Stream& stream : streams) EXPECT_NCCL(hostncclStreamSynchronize(stream));
      }
      --running;
    });
  }
  int seen = 0;
  for (auto since = Clock::now(); running > 0 && !HasFailure();) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (const int now = rounds; now != seen) {
      seen = now;
      since = Clock::now();
    } else if (Clock::now() - since > std::chrono::seconds(10)) {
      ADD_FAILURE() << "they wait for each other, after " << seen << " rounds";
      for (const Clique& clique : cliques) EXPECT_NCCL(ncclCommRevoke(clique[0], 0));
    }
  }
  for (std::thread& thread : threads) thread.join();
}

// Two communicators, entered in opposite orders by two ranks.
TEST(Group, SeveralCommunicatorsDoNotWaitForEachOther) {
  const Clique first(2), second(2);
  on_threads(2, [&](int r) {
    const ncclComm_t order[2] = {r == 0 ? first[r] : second[r], r == 0 ? second[r] : first[r]};
    for (int round = 0; round < 50; ++round) {
      int a = r + 1, b = 10 * (r + 1);
      int* values[2] = {r == 0 ? &a : &b, r == 0 ? &b : &a};
      ASSERT_NCCL(ncclGroupStart());
      for (int i = 0; i < 2; ++i) {
        ASSERT_NCCL(ncclAllReduce(values[i], values[i], 1, ncclInt32, ncclSum, order[i], nullptr));
      }
      ASSERT_NCCL(ncclGroupEnd());
      ASSERT_EQ(a, 3);
      ASSERT_EQ(b, 30);
    }
  });
}

class PointToPoint : public ::testing::TestWithParam<size_t> {};

// Everybody to everybody, itself included, all receives after all sends and the other way round.
TEST_P(PointToPoint, AllToAll) {
  const size_t count = GetParam();
  const int n = 4;
  const Clique clique(n);
  std::vector<std::unique_ptr<Buffer>> in, out;
  for (int r = 0; r < n; ++r) {
    in.push_back(std::make_unique<Buffer>(ncclInt32, n * count, 1));
    out.push_back(std::make_unique<Buffer>(ncclInt32, n * count, 1));
    in[r]->fill(
        [&](size_t i) { return static_cast<double>(r * 1000 + static_cast<int>(i % 997)); });
  }
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    for (int half = 0; half < 2; ++half) {
      for (int peer = 0; peer < n; ++peer) {
        const bool send = (half == 0) == (r % 2 == 0);
        const ncclResult_t result =
            send ? ncclSend(in[r]->at(peer * count), count, ncclInt32, peer, comm, nullptr)
                 : ncclRecv(out[r]->at(peer * count), count, ncclInt32, peer, comm, nullptr);
        if (result != ncclSuccess) return result;
      }
    }
    return ncclSuccess;
  }));
  for (int r = 0; r < n; ++r) {
    for (int peer = 0; peer < n; ++peer) {
      ASSERT_EQ(0, std::memcmp(out[r]->at(peer * count), in[peer]->at(r * count), 4 * count));
    }
    EXPECT_TRUE(out[r]->guards_intact());
  }
}

INSTANTIATE_TEST_SUITE_P(Counts, PointToPoint, ::testing::Values(0, 1, 1009, 100003, 2500009));

TEST(Group, ManyMessagesToOnePeerArriveInOrder) {
  const Clique clique(2);
  std::vector<int> sent(500), received(500, -1);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<int>(i);
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    for (size_t i = 0; i < sent.size(); ++i) {
      const ncclResult_t result = r == 0 ? ncclSend(&sent[i], 1, ncclInt32, 1, comm, nullptr)
                                         : ncclRecv(&received[i], 1, ncclInt32, 0, comm, nullptr);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  }));
  EXPECT_EQ(sent, received);
}

TEST(Group, CollectivesAndMessagesMix) {
  const Clique clique(2);
  int sum[2] = {1, 2}, token[2] = {7, 0};
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    if (r == 0) {
      EXPECT_NCCL(ncclSend(&token[0], 1, ncclInt32, 1, comm, nullptr));
    }
    EXPECT_NCCL(ncclAllReduce(&sum[r], &sum[r], 1, ncclInt32, ncclSum, comm, nullptr));
    if (r == 1) {
      EXPECT_NCCL(ncclRecv(&token[1], 1, ncclInt32, 0, comm, nullptr));
    }
    return ncclSuccess;
  }));
  EXPECT_EQ(sum[0], 3);
  EXPECT_EQ(sum[1], 3);
  EXPECT_EQ(token[1], 7);
}

TEST(Group, UnpairedMessageToItselfIsInvalidUsage) {
  const Clique clique(1);
  int value = 1;
  EXPECT_EQ(ncclInvalidUsage, ncclSend(&value, 1, ncclInt32, 0, clique[0], nullptr));
  ASSERT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], nullptr));
}

TEST(Group, NothingLaunchesWhereOneCommunicatorsMessagesAreUnpaired) {
  const Clique cliques[2] = {Clique(1), Clique(1)};
  for (int bad = 0; bad < 2; ++bad) {  // they have an order of their own
    int in = 1, out = 0;
    ASSERT_NCCL(ncclGroupStart());
    ASSERT_NCCL(ncclSend(&in, 1, ncclInt32, 0, cliques[bad][0], nullptr));
    ASSERT_NCCL(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, cliques[1 - bad][0], nullptr));
    EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
    EXPECT_EQ(out, 0);
  }
}

TEST(Group, OperatorMayGoBeforeTheGroupEnds) {
  const Clique clique(2);
  float value[2] = {1, 2}, factor = 10;
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    ncclRedOp_t op;
    EXPECT_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
    EXPECT_NCCL(ncclAllReduce(&value[r], &value[r], 1, ncclFloat32, op, comm, nullptr));
    return ncclRedOpDestroy(op, comm);
  }));
  EXPECT_EQ(value[0], 30);
}

TEST(Group, SimulatedEndLaunchesNothing) {
  const Clique clique(1);
  int in = 1, out = 0;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ASSERT_NCCL(ncclGroupStart());
  ASSERT_NCCL(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, clique[0], nullptr));
  ASSERT_NCCL(ncclGroupSimulateEnd(&info));
  EXPECT_EQ(out, 0);
  EXPECT_GE(info.estimatedTime, 0);
  EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
}

TEST(Group, SimulatedEndTellsWhatFailed) {
  const Clique clique(1);
  int value = 1;
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  for (int depth = 0; depth < 2; ++depth) ASSERT_NCCL(ncclGroupStart());
  EXPECT_EQ(ncclInvalidArgument, ncclSend(&value, 1, ncclInt32, /*peer=*/7, clique[0], nullptr));
  EXPECT_NCCL(ncclGroupSimulateEnd(&info));
  EXPECT_EQ(ncclInvalidArgument, ncclGroupSimulateEnd(&info));
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("peer 7"), std::string::npos)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclInvalidUsage, ncclGroupEnd());
  EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclInt32, ncclSum, clique[0], nullptr));
}

}  // namespace
}  // namespace hostnccl_test
