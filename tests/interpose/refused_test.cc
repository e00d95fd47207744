// Ranks of one thread whose settings are refused: they learn it together.
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <string>

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

}  // namespace
}  // namespace terse::test
