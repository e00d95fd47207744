// Ranks of one thread whose settings are refused: they learn it together.
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <latch>
#include <string>

#include "clients.h"

namespace terse::test {
namespace {

// With a TERSE_TIMEOUT far above.
constexpr std::chrono::seconds kSoon{20};

TEST(SettingsThatDiffer, DoNotBlockRanksOfOneThread) {
  constexpr int kRanks = 3;
  ncclComm_t comms[kRanks] = {};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ncclCommInitAll(comms, kRanks, nullptr), ncclInvalidArgument);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("int8x"), std::string::npos)
      << ncclGetLastError(nullptr);
}

bool accepted(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// A call on it fails so, and says that.
void expect_refused(ncclComm_t comm, ncclResult_t wanted, const char* cause) {
  float x = 1;
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, comm, nullptr), wanted);
  const std::string error = ncclGetLastError(comm);
  EXPECT_NE(error.find(cause), error.npos) << error;
}

// By which a program means to go on: then it hears what has become of the part, which is refused in
// its turn, and the whole as before.
TEST(SettingsThatDiffer, AllowAShrink) {
  std::latch over(2);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr, part = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    EXPECT_EQ(settled(made, comm), ncclInvalidArgument);
    const auto start = std::chrono::steady_clock::now();
    int lost = 1;
    if (rank != lost) {
      const ncclResult_t shrunk = ncclCommShrink(comm, &lost, 1, &part, nullptr, NCCL_SHRINK_ABORT);
      EXPECT_TRUE(accepted(shrunk)) << shrunk << ": " << ncclGetLastError(nullptr);
      EXPECT_EQ(settled(ncclInProgress, comm), ncclSuccess) << ncclGetLastError(nullptr);
      EXPECT_NE(part, nullptr);
      if (part != nullptr) {
        EXPECT_EQ(settled(ncclInProgress, part), ncclInvalidArgument);
      }
      expect_refused(comm, ncclInvalidArgument, "int8x");
      EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
    }
    over.arrive_and_wait();  // an abort is the other rank's error
    for (const ncclComm_t each : {part, comm})
      if (each != nullptr) {
        EXPECT_EQ(ncclCommAbort(each), ncclSuccess);
      }
  });
}

// What NCCL does not accept changes nothing.
TEST(SettingsThatDiffer, AreRefusedAfterAShrinkThatFails) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr, part = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    EXPECT_EQ(settled(made, comm), ncclInvalidArgument);
    int lost = 1;
    EXPECT_EQ(ncclCommShrink(comm, &lost, 0, &part, nullptr, NCCL_SHRINK_ABORT),
              ncclInvalidArgument);
    EXPECT_EQ(settled(ncclInProgress, comm), ncclInvalidArgument);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// One that is revoked is NCCL's to refuse, and to make parts of.
TEST(SettingsThatDiffer, AllowARevokeAndASplit) {
  std::latch revoked(2), told(2);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr, part = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    EXPECT_EQ(settled(made, comm), ncclInvalidArgument);
    EXPECT_TRUE(accepted(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT))) << ncclGetLastError(nullptr);
    EXPECT_EQ(settled(ncclInProgress, comm), ncclSuccess) << ncclGetLastError(nullptr);
    expect_refused(comm, ncclInvalidUsage, "revoked");
    revoked.arrive_and_wait();
    EXPECT_TRUE(accepted(ncclCommSplit(comm, 0, rank, &part, nullptr)))
        << ncclGetLastError(nullptr);
    EXPECT_EQ(settled(ncclInProgress, comm), ncclSuccess) << ncclGetLastError(nullptr);
    EXPECT_NE(part, nullptr);
    if (part != nullptr) {
      EXPECT_EQ(settled(ncclInProgress, part), ncclInvalidArgument);
    }
    told.arrive_and_wait();  // an abort is the other rank's error
    for (const ncclComm_t each : {part, comm})
      if (each != nullptr) {
        EXPECT_EQ(ncclCommAbort(each), ncclSuccess);
      }
  });
}

}  // namespace
}  // namespace terse::test
