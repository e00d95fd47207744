// Programs that are right stay so where their calls are also verified. Under TERSE_VERIFY=1 and
// TERSE_SCHEME="reduce,gather,scatter,broadcast,allreduce -> int8", or a scheme of a shared grid in
// place of int8: equal numbers of two ranks are exact.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cmath>
#include <vector>

#include "clients.h"

namespace terse::test {
namespace {

constexpr int kRanks = 2;

void expect_near(const std::vector<float>& x, float wanted, size_t count) {
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += !(std::abs(x[i] - wanted) <= 0.01f * wanted);
  EXPECT_EQ(wrong, 0u) << "x[0] is " << x[0] << ", not " << wanted;
}

template <class Body>
void on_ranks(const Body& body) {
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    const ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
    const ncclComm_t comm = made_with(blocking, rank, kRanks, id);
    body(rank, comm);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// The second call's message is larger, but its packed form is smaller: only the root's memory for
// the exact result has to grow.
TEST(Verified, RootedCallsWhoseExactResultsGrow) {
  on_ranks([](int rank, ncclComm_t comm) {
    const std::vector<uint16_t> halves(100'000, 0x3c00);  // ones
    std::vector<uint16_t> half_sum(kRanks * halves.size());
    const std::vector<float> ones(90'000, 1.0f);
    std::vector<float> result(kRanks * ones.size());
    ASSERT_EQ(ncclReduce(halves.data(), half_sum.data(), halves.size(), ncclFloat16, ncclSum, 0,
                         comm, nullptr),
              ncclSuccess)
        << ncclGetLastError(comm);
    ASSERT_EQ(
        ncclReduce(ones.data(), result.data(), ones.size(), ncclFloat32, ncclSum, 0, comm, nullptr),
        ncclSuccess)
        << ncclGetLastError(comm);
    if (rank == 0) expect_near(result, 2, ones.size());
    ASSERT_EQ(
        ncclGather(halves.data(), half_sum.data(), halves.size(), ncclFloat16, 1, comm, nullptr),
        ncclSuccess)
        << ncclGetLastError(comm);
    ASSERT_EQ(ncclGather(ones.data(), result.data(), ones.size(), ncclFloat32, 1, comm, nullptr),
              ncclSuccess)
        << ncclGetLastError(comm);
    if (rank == 1) expect_near(result, 1, kRanks * ones.size());
  });
}

// A sum with an operator of the program's own is not verified, one without is.
TEST(Verified, OperatorsOfTheProgramAndOthers) {
  on_ranks([](int rank, ncclComm_t comm) {
    const std::vector<float> ones(90'000, 1.0f);
    std::vector<float> result(ones.size());
    float half = 0.5f;
    ncclRedOp_t halved;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&halved, &half, ncclFloat32, ncclScalarHostImmediate, comm),
              ncclSuccess);
    for (const auto& [op, wanted] : {std::pair(halved, 1.0f), {ncclSum, 2.0f}, {ncclAvg, 1.0f}}) {
      ASSERT_EQ(
          ncclReduce(ones.data(), result.data(), ones.size(), ncclFloat32, op, 0, comm, nullptr),
          ncclSuccess)
          << ncclGetLastError(comm);
      if (rank == 0) expect_near(result, wanted, ones.size());
      ASSERT_EQ(
          ncclAllReduce(ones.data(), result.data(), ones.size(), ncclFloat32, op, comm, nullptr),
          ncclSuccess)
          << ncclGetLastError(comm);
      expect_near(result, wanted, ones.size());
    }
    EXPECT_EQ(ncclRedOpDestroy(halved, comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
