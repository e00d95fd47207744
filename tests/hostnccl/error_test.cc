// What is refused, what is reported, and that nothing hangs.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>

#include "reference.h"
#include "streams.h"

namespace hostnccl_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

::testing::AssertionResult last_error_says(const std::string& part) {
  const std::string text = ncclGetLastError(nullptr);
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}

TEST(Errors, ArgumentsAreChecked) {
  const Clique clique(2);
  int a = 1, b = 2;
  const auto all_reduce = [&](const void* send, void* recv, size_t count, int type, int op,
                              ncclComm_t comm) {
    return ncclAllReduce(send, recv, count, static_cast<ncclDataType_t>(type),
                         static_cast<ncclRedOp_t>(op), comm, nullptr);
  };
  EXPECT_EQ(ncclInvalidArgument, all_reduce(&a, &b, 1, ncclInt32, ncclSum, nullptr));
  EXPECT_TRUE(last_error_says("comm is NULL"));
  EXPECT_EQ(ncclInvalidArgument,
            all_reduce(&a, &b, 1, ncclInt32, ncclSum, reinterpret_cast<ncclComm_t>(&a)));
  EXPECT_EQ(ncclInvalidArgument, all_reduce(nullptr, &b, 1, ncclInt32, ncclSum, clique[1]));
  EXPECT_TRUE(last_error_says("ncclAllReduce: rank 1: sendbuff is NULL"));
  EXPECT_EQ(ncclInvalidArgument, all_reduce(&a, nullptr, 1, ncclInt32, ncclSum, clique[0]));
  EXPECT_EQ(ncclInvalidArgument, all_reduce(&a, &b, 1, ncclNumTypes, ncclSum, clique[0]));
  EXPECT_EQ(ncclInvalidArgument, all_reduce(&a, &b, 1, ncclInt32, ncclNumOps, clique[0]));
  EXPECT_EQ(ncclInvalidArgument, all_reduce(&a, &b, std::numeric_limits<size_t>::max() / 2,
                                            ncclInt32, ncclSum, clique[0]));
  EXPECT_EQ(ncclInvalidArgument, ncclBroadcast(&a, &b, 1, ncclInt32, 2, clique[0], nullptr));
  EXPECT_TRUE(last_error_says("root 2"));
  EXPECT_EQ(ncclInvalidArgument, ncclBroadcast(&a, &b, 1, ncclInt32, -1, clique[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclSend(&a, 1, ncclInt32, 2, clique[0], nullptr));
  EXPECT_TRUE(last_error_says("peer 2"));
  EXPECT_EQ(b, 2);
  // Nothing of it has hurt.
  int value[2] = {1, 2};
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&value[r], &value[r], 1, ncclInt32, ncclSum, comm, nullptr);
  }));
  EXPECT_EQ(value[0], 3);
}

// By a process of its own, whose stderr is full, or closed.
TEST(Errors, AreReturnedWhereTheLogCannotBeWritten) {
  const int full = open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  for (const bool is_open : {true, false}) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      setenv("NCCL_DEBUG", "WARN", 1);
      unsetenv("NCCL_DEBUG_FILE");
      if (is_open) {
        dup2(full, STDERR_FILENO);
      } else {
        close(STDERR_FILENO);
      }
      int count = 0;
      _exit(ncclCommCount(nullptr, &count) == ncclInvalidArgument ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  close(full);
}

TEST(Errors, OperatorsBelongToTheirCommunicatorAndType) {
  const Clique clique(1), other(1);
  float value = 1;
  ncclRedOp_t op;
  ASSERT_NCCL(
      ncclRedOpCreatePreMulSum(&op, &value, ncclFloat32, ncclScalarHostImmediate, clique[0]));
  EXPECT_EQ(ncclInvalidArgument,
            ncclAllReduce(&value, &value, 1, ncclFloat64, op, clique[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument,
            ncclAllReduce(&value, &value, 1, ncclFloat32, op, other[0], nullptr));
  ncclRedOp_t others;  // an operator of its own does not take the place of ours
  ASSERT_NCCL(
      ncclRedOpCreatePreMulSum(&others, &value, ncclFloat32, ncclScalarHostImmediate, other[0]));
  EXPECT_EQ(ncclInvalidArgument,
            ncclAllReduce(&value, &value, 1, ncclFloat32, op, other[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclRedOpDestroy(op, other[0]));
  EXPECT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat32, others, other[0], nullptr));
  EXPECT_EQ(ncclInvalidArgument, ncclRedOpDestroy(ncclSum, clique[0]));
  EXPECT_NCCL(ncclRedOpDestroy(op, clique[0]));
  EXPECT_EQ(ncclInvalidArgument, ncclRedOpDestroy(op, clique[0]));
  EXPECT_EQ(ncclInvalidArgument,
            ncclAllReduce(&value, &value, 1, ncclFloat32, op, clique[0], nullptr));
}

TEST(Errors, InitArgumentsAreChecked) {
  ncclUniqueId id;
  EXPECT_EQ(ncclInvalidArgument, ncclGetUniqueId(nullptr));
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclComm_t comm;
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(nullptr, 1, id, 0));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(&comm, 1, id, 1));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(&comm, 1, id, -1));
  const ncclUniqueId empty = {};
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitRank(&comm, 1, empty, 0));
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitAll(&comm, 0, nullptr));
  const int twice[2] = {1, 1};
  ncclComm_t comms[2];
  EXPECT_EQ(ncclInvalidArgument, ncclCommInitAll(comms, 2, twice));
}

TEST(Errors, DestroyedTwice) {
  ncclComm_t comm;
  ASSERT_NCCL(ncclCommInitAll(&comm, 1, nullptr));
  EXPECT_NCCL(ncclCommDestroy(comm));
  EXPECT_EQ(ncclInvalidArgument, ncclCommDestroy(comm));
  EXPECT_EQ(ncclInvalidArgument, ncclCommAbort(comm));
  EXPECT_NCCL(ncclCommDestroy(nullptr));
  EXPECT_NCCL(ncclCommFinalize(nullptr));  // as NCCL's
  EXPECT_NCCL(ncclCommRevoke(nullptr, NCCL_REVOKE_DEFAULT));
}

TEST(Errors, AMissingRankIsNamed) {
  setenv("HOSTNCCL_TIMEOUT", "0.5", 1);
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    ncclComm_t comm;
    EXPECT_EQ(ncclSystemError, ncclCommInitRank(&comm, 3, id, rank));
    EXPECT_EQ(comm, nullptr);
  });
  EXPECT_TRUE(last_error_says("rank 2 did not arrive"));
  unsetenv("HOSTNCCL_TIMEOUT");
}

TEST(Errors, MissingSurvivorsAreNamed) {
  const Clique clique(4);
  setenv("HOSTNCCL_TIMEOUT", "0.2", 1);
  int excluded[] = {3};
  ncclComm_t child;
  EXPECT_EQ(ncclSystemError,
            ncclCommShrink(clique[0], excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
  EXPECT_TRUE(last_error_says("rank 1, 2 did not arrive"));
  unsetenv("HOSTNCCL_TIMEOUT");
}

TEST(Errors, RanksDisagreeOnTheirNumber) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  on_threads(2, [&](int rank) {
    ncclComm_t comm;
    EXPECT_EQ(ncclInvalidUsage, ncclCommInitRank(&comm, 2 + rank, id, rank));
    EXPECT_EQ(comm, nullptr);
  });
  EXPECT_TRUE(last_error_says("says nranks is "));
}

TEST(Errors, RankGivenTwice) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  on_threads(2, [&](int) {
    ncclComm_t comm;
    EXPECT_EQ(ncclInvalidUsage, ncclCommInitRank(&comm, 3, id, 1));
    EXPECT_EQ(comm, nullptr);
  });
  EXPECT_TRUE(last_error_says("rank 1 was given to two callers"));
}

// Each pair of calls differs in one thing; both ranks must end with an error, soon.
class Mismatch : public ::testing::TestWithParam<int> {};

TEST_P(Mismatch, IsAnErrorOnBothRanks) {
  const Clique clique(2);
  on_threads(2, [&](int r) {
    std::vector<float> send(200000, 1), recv(400000, 7);
    const ncclComm_t comm = clique[r];
    ncclResult_t result = ncclSuccess;
    switch (GetParam()) {
      case 0:  // count, small and direct
        result =
            ncclAllReduce(send.data(), recv.data(), 10 + r, ncclFloat32, ncclSum, comm, nullptr);
        break;
      case 1:  // count, through different algorithms
        result = ncclAllReduce(send.data(), recv.data(), r == 0 ? 10 : 200000, ncclFloat32, ncclSum,
                               comm, nullptr);
        break;
      case 2:  // type of equal size
        result = ncclAllReduce(send.data(), recv.data(), 10, r == 0 ? ncclFloat32 : ncclInt32,
                               ncclSum, comm, nullptr);
        break;
      case 3:  // operator
        result = ncclAllReduce(send.data(), recv.data(), 10, ncclFloat32,
                               r == 0 ? ncclSum : ncclMax, comm, nullptr);
        break;
      case 4:  // root: both receive, nobody sends
        result = ncclBroadcast(send.data(), recv.data(), 10, ncclFloat32, 1 - r, comm, nullptr);
        break;
      case 5:  // root: both send, and only the stalled call after it shows
        result = ncclBroadcast(send.data(), recv.data(), 10, ncclFloat32, r, comm, nullptr);
        if (result == ncclSuccess) {
          result = r == 0 ? ncclAllGather(send.data(), recv.data(), 10, ncclFloat32, comm, nullptr)
                          : ncclReduceScatter(recv.data(), send.data(), 10, ncclFloat32, ncclSum,
                                              comm, nullptr);
        }
        break;
      case 6:  // kind
        result = r == 0 ? ncclAllGather(send.data(), recv.data(), 10, ncclFloat32, comm, nullptr)
                        : ncclAllReduce(send.data(), recv.data(), 10, ncclFloat32, ncclSum, comm,
                                        nullptr);
        break;
      case 7:  // message size
        result = r == 0 ? ncclSend(send.data(), 10, ncclFloat32, 1, comm, nullptr)
                        : ncclRecv(recv.data(), 9, ncclFloat32, 0, comm, nullptr);
        if (r == 0 && result == ncclSuccess) {  // the sender may be through before it is known
          result = ncclRecv(recv.data(), 1, ncclFloat32, 1, comm, nullptr);
        }
        break;
    }
    EXPECT_NE(ncclSuccess, result) << "rank " << r;
    EXPECT_EQ(recv[300000], 7);
    ncclResult_t state;
    EXPECT_NCCL(ncclCommGetAsyncError(comm, &state));
    EXPECT_NE(state, ncclSuccess);
    EXPECT_EQ(state,
              ncclAllReduce(send.data(), recv.data(), 1, ncclFloat32, ncclSum, comm, nullptr))
        << "later calls give the same error";
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Mismatch, ::testing::Range(0, 8));

TEST(Abort, EndsACallInFlightAndQueuedOnes) {
  ncclComm_t comms[2];
  ASSERT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  cudaStream_t stream;
  ASSERT_NCCL(hostncclStreamCreate(&stream));
  std::vector<float> data(1000000, 1);
  for (int i = 0; i < 3; ++i) {  // rank 1 never joins
    ASSERT_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comms[0],
                              stream));
  }
  std::thread blocked([&] {
    float value = 1;
    EXPECT_NE(ncclSuccess,
              ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comms[0], nullptr));
  });
  std::this_thread::sleep_for(30ms);
  const Clock::time_point start = Clock::now();
  EXPECT_NCCL(ncclCommAbort(comms[0]));
  blocked.join();
  EXPECT_NE(ncclSuccess, hostncclStreamSynchronize(stream));
  EXPECT_LT(Clock::now() - start, 20s);
  EXPECT_NCCL(hostncclStreamDestroy(stream));
  // The other rank hears of it. Its call is the one that rank 0 was in: any other might meet what
  // rank 0 has sent, and be called mismatched.
  std::vector<float> other(data.size(), 1);
  EXPECT_EQ(ncclRemoteError, ncclAllReduce(other.data(), other.data(), other.size(), ncclFloat32,
                                           ncclSum, comms[1], nullptr));
  EXPECT_NCCL(ncclCommAbort(comms[1]));
}

TEST(Abort, EndsACallWhoseStreamHasNotReachedIt) {
  ncclComm_t comm;
  ASSERT_NCCL(ncclCommInitAll(&comm, 1, nullptr));
  cudaStream_t stream;
  ASSERT_NCCL(hostncclStreamCreate(&stream));
  std::atomic<bool> open{false};
  ASSERT_NCCL(hostncclLaunchHostFunc(
      stream,
      [](void* arg) {
        while (!*static_cast<std::atomic<bool>*>(arg)) std::this_thread::sleep_for(1ms);
      },
      &open));
  float value = 1;
  ASSERT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm, stream));
  EXPECT_NCCL(ncclCommAbort(comm));
  open = true;
  EXPECT_NE(ncclSuccess, hostncclStreamSynchronize(stream));
  EXPECT_NCCL(hostncclStreamSynchronize(stream));  // reported once
  EXPECT_NCCL(hostncclStreamDestroy(stream));
}

TEST(Abort, EndsAnInitialisation) {
  ncclUniqueId id;
  ASSERT_NCCL(ncclGetUniqueId(&id));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm;
  ASSERT_EQ(ncclInProgress, ncclCommInitRankConfig(&comm, 2, id, 0, &config));
  std::this_thread::sleep_for(20ms);
  const Clock::time_point start = Clock::now();
  EXPECT_NCCL(ncclCommAbort(comm));
  EXPECT_LT(Clock::now() - start, 20s);
}

// By a function on a stream, of which nothing else is under way: it ends what another rank waits
// for, too.
TEST(CommFail, EndsTheCommunicatorOnAllRanksAndTheStream) {
  ncclComm_t comms[2];
  ASSERT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) ASSERT_NCCL(hostncclStreamCreate(&stream));
  float value = 1;
  ASSERT_NCCL(ncclRecv(&value, 1, ncclFloat32, 0, comms[1], streams[1]));
  struct Finding {
    ncclComm_t comm;
    cudaStream_t stream;
  } finding{comms[0], streams[0]};
  ASSERT_NCCL(hostncclLaunchHostFunc(
      streams[0],
      [](void* arg) {
        const auto& [comm, stream] = *static_cast<Finding*>(arg);
        EXPECT_EQ(ncclInvalidArgument, hostncclCommFail(comm, stream, ncclSuccess, "nothing"));
        EXPECT_NCCL(hostncclCommFail(comm, stream, ncclInvalidUsage, "at different calls"));
      },
      &finding));
  EXPECT_EQ(ncclInvalidUsage, hostncclStreamSynchronize(streams[0]));
  EXPECT_TRUE(last_error_says("at different calls"));
  EXPECT_EQ(ncclRemoteError, hostncclStreamSynchronize(streams[1]));
  EXPECT_TRUE(last_error_says("at different calls"));
  for (cudaStream_t& stream : streams) EXPECT_NCCL(hostncclStreamDestroy(stream));
  for (const ncclComm_t comm : comms) EXPECT_NCCL(ncclCommAbort(comm));
}

// To have a message is not to have asked for it.
TEST(Errors, DestroyDoesNotWaitForAReceive) {
  ncclComm_t comms[2];
  ASSERT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  int sent = 7, received = 0;
  ASSERT_NCCL(ncclSend(&sent, 1, ncclInt32, 1, comms[0], nullptr));
  ASSERT_NCCL(ncclCommFinalize(comms[0]));
  EXPECT_NCCL(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT));  // nothing is under way any more
  EXPECT_NCCL(ncclCommDestroy(comms[0]));
  ASSERT_NCCL(ncclRecv(&received, 1, ncclInt32, 0, comms[1], nullptr));
  EXPECT_EQ(received, 7);
  EXPECT_NCCL(ncclCommDestroy(comms[1]));
}

// A rank that left in good order does not come back: who waits for it is told.
TEST(Errors, WaitingForARankThatLeft) {
  ncclComm_t comms[2];
  ASSERT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  EXPECT_NCCL(ncclCommDestroy(comms[1]));
  float value = 1;
  EXPECT_EQ(ncclRemoteError,
            ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comms[0], nullptr));
  EXPECT_TRUE(last_error_says("rank 1 has left"));
  EXPECT_NCCL(ncclCommDestroy(comms[0]));
}

// The failure is known before the call that it ends has let go of its buffers.
TEST(Errors, RevokeWaitsForTheCallThatAFailureEnds) {
  ncclComm_t comms[2];
  ASSERT_NCCL(ncclCommInitAll(comms, 2, nullptr));
  EXPECT_NCCL(ncclCommDestroy(comms[1]));
  const Stream stream;
  float value = 1;
  ASSERT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comms[0], stream));
  ncclResult_t state = ncclSuccess;
  while (state == ncclSuccess) ASSERT_NCCL(ncclCommGetAsyncError(comms[0], &state));
  EXPECT_EQ(state, ncclRemoteError);
  EXPECT_NCCL(ncclCommRevoke(comms[0], NCCL_REVOKE_DEFAULT));
  EXPECT_NE(ncclInProgress, hostncclStreamQuery(stream));
  EXPECT_EQ(ncclRemoteError, hostncclStreamSynchronize(stream));
  EXPECT_NCCL(ncclCommDestroy(comms[0]));
}

}  // namespace
}  // namespace hostnccl_test
