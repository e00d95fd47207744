// Programs whose native calls are traced, too. Under TERSE_TRACE, TERSE_REPORT,
// TERSE_SCHEME="allreduce,sendrecv bytes=4K.. -> int8", and an NCCL that runs several calls of a
// communicator at once.
#include <gtest/gtest.h>
#include <hostnccl.h>
#include <nccl.h>

#include <vector>

#include "clients.h"

namespace terse::test {
namespace {

constexpr size_t kMany = 100'000;

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(hostncclStreamCreate(&stream), ncclSuccess);
  return stream;
}

void expect_done(ncclResult_t result, cudaStream_t stream) {
  EXPECT_EQ(result, ncclSuccess) << ncclGetLastError(nullptr);
  EXPECT_EQ(hostncclStreamSynchronize(stream), ncclSuccess) << ncclGetLastError(nullptr);
}

// Rank 1 receives what rank 0 sends first when rank 2 has the second message.
TEST(Traced, NativeMessagesHoldUpNoCompressedOnes) {
  on_threads(3, [](int rank, const ncclUniqueId& id) {
    const ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
    const ncclComm_t comm = made_with(blocking, rank, 3, id);
    const cudaStream_t first = new_stream(), second = new_stream();
    std::vector<int> large(1 << 22, rank), word(1, rank);
    std::vector<float> x(kMany, 1.0f);
    const auto send = [&](auto& data, ncclDataType_t type, int peer, cudaStream_t stream) {
      return ncclSend(data.data(), data.size(), type, peer, comm, stream);
    };
    const auto receive = [&](auto& data, ncclDataType_t type, int peer, cudaStream_t stream) {
      expect_done(ncclRecv(data.data(), data.size(), type, peer, comm, stream), stream);
    };
    // Has the communicator's memory made.
    if (rank == 0) expect_done(send(x, ncclFloat32, 2, second), second);
    if (rank == 2) receive(x, ncclFloat32, 0, second);
    if (rank == 0) {
      EXPECT_EQ(send(large, ncclInt32, 1, first), ncclSuccess);
      expect_done(send(x, ncclFloat32, 2, second), second);
      EXPECT_EQ(hostncclStreamSynchronize(first), ncclSuccess);
    } else if (rank == 1) {
      receive(word, ncclInt32, 2, first);
      receive(large, ncclInt32, 0, first);
      EXPECT_EQ(large.back(), 0);
    } else {
      receive(x, ncclFloat32, 0, second);
      EXPECT_EQ(x.front(), 1.0f);
      expect_done(send(word, ncclInt32, 1, second), second);
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    for (const cudaStream_t stream : {first, second})
      EXPECT_EQ(hostncclStreamDestroy(stream), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
