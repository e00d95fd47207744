// Ranks of one thread whose settings are refused: they learn it together.
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <string>

#include "clients.h"

namespace terse::test {
namespace {

// With a TERSE_TIMEOUT far above.
constexpr std::chrono::seconds kSoon{20};

TEST(Refused, RanksOfOneThreadDoNotWaitForEachOther) {
  constexpr int kRanks = 3;
  ncclComm_t comms[kRanks] = {};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(ncclCommInitAll(comms, kRanks, nullptr), ncclInvalidArgument);
  EXPECT_LT(std::chrono::steady_clock::now() - start, kSoon);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("int8x"), std::string::npos)
      << ncclGetLastError(nullptr);
}

// By which a program means to go on; what comes of it is refused in its turn.
TEST(Refused, AreNoReasonNotToShrink) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr, part = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    EXPECT_EQ(settled(made, comm), ncclInvalidArgument);
    int lost = 1;
    if (rank != lost) {
      const ncclResult_t shrunk = ncclCommShrink(comm, &lost, 1, &part, nullptr, NCCL_SHRINK_ABORT);
      EXPECT_TRUE(shrunk == ncclSuccess || shrunk == ncclInProgress)
          << shrunk << ": " << ncclGetLastError(nullptr);
      EXPECT_EQ(settled(ncclInProgress, comm), ncclInvalidArgument);
    }
    for (const ncclComm_t each : {part, comm})
      if (each != nullptr) {
        EXPECT_EQ(ncclCommAbort(each), ncclSuccess);
      }
  });
}

}  // namespace
}  // namespace terse::test
