// A program whose NCCL lies in a larger library: nothing tells its calls from that library's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <vector>

#include "clients.h"
#include "nodes_of.h"
#include "terse/terse.h"

namespace terse {
namespace {

TEST(Embedded, ACallThatNcclMakesOnItsWayIsNotCountedAgain) {
  const auto stats_of =
      reinterpret_cast<decltype(&tersePreloadStats)>(dlsym(RTLD_DEFAULT, "tersePreloadStats"));
  ASSERT_NE(stats_of, nullptr) << "run this by ctest";
  ncclComm_t comms[2];
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
  std::vector<int32_t> from(1000, 1), to(1000, 2);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclBcast(from.data(), 1000, ncclInt32, 0, comms[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclBcast(to.data(), 1000, ncclInt32, 0, comms[1], nullptr), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(to, from);
  for (const ncclComm_t comm : comms) {
    terseStats_t stats{};
    stats.size = sizeof stats;
    ASSERT_EQ(stats_of(comm, &stats), ncclSuccess);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_OFF] + stats.bypasses[TERSE_BYPASS_DTYPE], 1u);
    if (comm == comms[0]) {
      EXPECT_EQ(stats.native_bytes, 4000u);
    }
  }
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(Embedded, ACommunicatorThatDoesNotBlockIsMade) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclComm_t comms[2] = {};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&comms[r], 2, id, r, &config);
  ASSERT_EQ(ncclGroupEnd(), ncclInProgress);
  for (const ncclComm_t comm : comms) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      usleep(100);
      ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    }
    EXPECT_EQ(state, ncclSuccess) << ncclGetLastError(comm);
    int count = 0;
    EXPECT_EQ(ncclCommCount(comm, &count), ncclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(test::nodes_of(comm), 1u) << "its ranks have not compared settings";
  }
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

// The program may go on at once with one that blocks, also where its part does not.
TEST(Embedded, APartDoesNotHoldUpAWholeThatBlocks) {
  test::on_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t whole = nullptr, part = nullptr;
    ASSERT_EQ(ncclCommInitRank(&whole, 2, id, rank), ncclSuccess);
    ncclConfig_t config = test::non_blocking();
    ASSERT_EQ(ncclCommSplit(whole, 0, rank, &part, &config), ncclSuccess);
    for (const ncclComm_t comm : {whole, part}) {
      ncclResult_t state = ncclInProgress;
      EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      EXPECT_EQ(state, ncclSuccess);
      int count = 0;
      EXPECT_EQ(ncclCommCount(comm, &count), ncclSuccess);
      EXPECT_EQ(count, 2);
      std::vector<float> x(100'000, 1);
      const ncclResult_t result =
          ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comm, nullptr);
      EXPECT_EQ(test::settled(result, comm), ncclSuccess) << ncclGetLastError(comm);
      EXPECT_EQ(x, std::vector<float>(x.size(), 2));
    }
    for (const ncclComm_t comm : {part, whole}) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse
