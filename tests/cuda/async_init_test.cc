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

TEST(AsyncInit, UsesNoDeviceButTheCommunicators) {
  fake::forget_contexts();
  on_threads(kRanks, [](int rank, const ncclUniqueId& id) {
    must(cudaSetDevice(kFirst + rank));
    const ncclComm_t comm = made_with(non_blocking(), rank, kRanks, id);
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
  EXPECT_EQ(fake::contexts(), (std::set<int>{kFirst, kFirst + 1}));
}

// That of the runtime's strictest mode, which calls of any thread that allocate or wait would
// break.
TEST(AsyncInit, BreaksNoCaptureOfAnotherThread) {
  must(cudaSetDevice(kFirst));
  const DeviceStream stream;
  must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal));
  on_threads(kRanks, [](int rank, const ncclUniqueId& id) {
    must(cudaSetDevice(kFirst + rank));
    EXPECT_EQ(ncclCommDestroy(made_with(non_blocking(), rank, kRanks, id)), ncclSuccess);
  });
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  if (graph != nullptr) must(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace terse::test
