// How far a communicator is NCCL hears from one thread at a time: also while its ranks compare
// settings in the background, and the program asks on and on (fake/asked_nccl.cc). Under
// TERSE_SCHEME="name=grad* -> int4".
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstdlib>
#include <string>

#include "named.h"

namespace terse::test {
namespace {

TEST(Asked, ByOneThreadAtATime) {
  for (int attempt = 0; attempt < 5; ++attempt)
    on_threads(2, [](int rank, const ncclUniqueId& id) {
      const ncclComm_t comm = made_with(named("grad", false), rank, 2, id);
      expect_compressed(true, comm, "grad");
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
}

// What NCCL has failed with the program hears all the same, once nothing else asks.
TEST(Asked, AFailureIsHeardOf) {
  setenv("HOSTNCCL_TIMEOUT", "0.2", 1);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = named("grad", false);
  ncclComm_t comm = nullptr;
  const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, 0, &config);  // and no other rank
  EXPECT_EQ(settled(made, comm), ncclSystemError);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("did not arrive"), std::string::npos)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  unsetenv("HOSTNCCL_TIMEOUT");
}

}  // namespace
}  // namespace terse::test
