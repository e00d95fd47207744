// Operators that go as soon as NCCL allows it: once the calls that use them have returned.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "host_stream.h"
#include "programs.h"

namespace terse::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kCount = 5000;

class Operators : public EachScheme {
 protected:
  void expect_all(const Floats& x, float value) const {
    for (const float found : x) ASSERT_NEAR(found, value, std::abs(value) * 2 * step(scheme()));
  }
};

// Multiplies by what is no more once it is made.
ncclRedOp_t times(float factor, ncclComm_t comm) {
  ncclRedOp_t op;
  Fenced scalar(sizeof factor);
  std::memcpy(scalar.data(), &factor, sizeof factor);
  EXPECT_EQ(
      ncclRedOpCreatePreMulSum(&op, scalar.data(), ncclFloat32, ncclScalarHostImmediate, comm),
      ncclSuccess)
      << ncclGetLastError(comm);
  return op;
}

void sum(Floats& x, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  EXPECT_EQ(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, op, comm, stream), ncclSuccess)
      << ncclGetLastError(comm);
}

std::vector<Floats> ones(size_t calls) { return std::vector<Floats>(calls, Floats(kCount, 1.0f)); }

TEST_P(Operators, GoBeforeTheirCallHasRun) {
  for (const std::string& name : {scheme(), std::string(kNative)})
    on_ranks(kRanks, name, [&](int, ncclComm_t comm) {
      const HostStream stream;
      auto data = ones(8);
      for (size_t k = 0; k < data.size(); ++k) {  // each has the number of the one before
        const ncclRedOp_t op = times(static_cast<float>(k + 1), comm);
        sum(data[k], op, comm, stream.get());
        EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess);
      }
      ASSERT_EQ(stream.synchronize(), ncclSuccess);
      for (size_t k = 0; k < data.size(); ++k)
        expect_all(data[k], kRanks * static_cast<float>(k + 1));
    });
}

TEST_P(Operators, GoBeforeTheirGroupEnds) {
  for (const std::string& name : {scheme(), std::string(kNative)})
    on_ranks(kRanks, name, [&](int, ncclComm_t comm) {
      const HostStream stream;
      auto data = ones(6);
      const ncclRedOp_t first = times(3, comm);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      for (size_t k = 0; k < 3; ++k) sum(data[k], first, comm, stream.get());
      EXPECT_EQ(ncclRedOpDestroy(first, comm), ncclSuccess);
      const ncclRedOp_t second = times(-0.5f, comm);
      for (size_t k = 3; k < 6; ++k) sum(data[k], second, comm, stream.get());
      EXPECT_EQ(ncclRedOpDestroy(second, comm), ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
      ASSERT_EQ(stream.synchronize(), ncclSuccess);
      for (size_t k = 0; k < 6; ++k) expect_all(data[k], kRanks * (k < 3 ? 3 : -0.5f));
    });
}

// In a group as outside of it, an operator that was destroyed is none.
TEST_P(Operators, ThatAreGoneAreRefused) {
  for (const std::string& name : {scheme(), std::string(kNative)})
    on_ranks(kRanks, name, [&](int, ncclComm_t comm) {
      auto data = ones(1);
      const ncclRedOp_t op = times(3, comm);
      EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess);
      EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclInvalidArgument);
      EXPECT_EQ(
          ncclAllReduce(data[0].data(), data[0].data(), kCount, ncclFloat32, op, comm, nullptr),
          ncclInvalidArgument);
      expect_all(data[0], 1);
    });
}

INSTANTIATE_TEST_SUITE_P(Schemes, Operators, kSchemes);

}  // namespace
}  // namespace terse::test
