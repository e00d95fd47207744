// A program that calls libterse.so, too: both libraries count its communicators, and yet draw other
// numbers. Under TERSE_SCHEME="bytes=0.. -> int4:round=stochastic".
#include <gtest/gtest.h>

#include <vector>

#include "clients.h"
#include "host_stream.h"
#include "terse/terse.h"

namespace terse::test {
namespace {

constexpr size_t kCount = 1 << 14;

TEST(TwoLibraries, DrawDifferentNumbers) {
  terseScheme_t* scheme = nullptr;
  ASSERT_EQ(terseSchemeParse("int4:round=stochastic", &scheme), ncclSuccess);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_with(NCCL_CONFIG_INITIALIZER, rank, 2, id);
    std::vector<float> in(kCount), by_nccl(kCount), by_terse(kCount);
    for (size_t i = 0; i < kCount; ++i) in[i] = static_cast<float>(i % 1000) / 999;
    for (int call = 0; call < 3; ++call) {
      ASSERT_EQ(ncclAllReduce(in.data(), by_nccl.data(), kCount, ncclFloat32, ncclSum, comm, {}),
                ncclSuccess);
      ASSERT_EQ(terseAllReduce(in.data(), by_terse.data(), kCount, ncclFloat32, ncclSum, scheme,
                               comm, {}),
                ncclSuccess)
          << terseGetLastError();
      size_t unlike = 0;
      for (size_t i = 0; i < kCount; ++i) {
        EXPECT_NEAR(by_nccl[i], 2 * in[i], 0.5) << i;
        EXPECT_NEAR(by_terse[i], 2 * in[i], 0.5) << i;
        unlike += by_nccl[i] != by_terse[i];
      }
      EXPECT_GT(unlike, kCount / 4) << "call " << call;
    }
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  terseSchemeDestroy(scheme);
}

}  // namespace
}  // namespace terse::test
