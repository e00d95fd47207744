// Communicators that do not block, of which NCCL has made one on one rank before it says so
// (fake/instant_init_nccl.cc), under TERSE_SCHEME="name=grad* -> int4".
#include <gtest/gtest.h>
#include <nccl.h>

#include <vector>

#include "named.h"

namespace terse::test {
namespace {

// Its ranks go on to whatever comes first, and none waits for the others where it is made. None is
// told that it is ready before all have met.
TEST(InstantInit, ComparesSettingsBeforeTheFirstCall) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = named("grad", false);
    ncclComm_t comm = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    EXPECT_EQ(made, ncclInProgress);
    ASSERT_EQ(settled(made, comm), ncclSuccess);
    std::vector<float> few(10, 1.0f);
    const ncclResult_t native =
        ncclAllReduce(few.data(), few.data(), few.size(), ncclFloat32, ncclSum, comm, nullptr);
    ASSERT_EQ(settled(native, comm), ncclSuccess) << ncclGetLastError(comm);
    EXPECT_EQ(few, std::vector<float>(10, 2.0f));
    expect_compressed(true, comm, "grad");
    ncclCommDestroy(comm);
  });
}

}  // namespace
}  // namespace terse::test
