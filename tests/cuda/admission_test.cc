// Communicators that do not block, admitted by a thread of the preload library's own, which has
// used no device: device 0, where threads begin, gets no context by it. Under NCCL_GPU_FIRST=3.
#include <gtest/gtest.h>

#include <set>

#include "clients.h"
#include "device.h"
#include "fake.h"

namespace terse::test {
namespace {

constexpr int kRanks = 2, kFirst = 3;

TEST(Admission, UsesNoDeviceButTheCommunicators) {
  fake::forget_contexts();
  on_threads(kRanks, [](int rank, const ncclUniqueId& id) {
    must(cudaSetDevice(kFirst + rank));
    const ncclComm_t comm = made_with(non_blocking(), rank, kRanks, id);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  EXPECT_EQ(fake::contexts(), (std::set<int>{kFirst, kFirst + 1}));
}

}  // namespace
}  // namespace terse::test
