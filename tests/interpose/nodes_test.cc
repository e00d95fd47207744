// Rules that go by the number of nodes, on communicators that were made past terse: their ranks
// tell each other at the first call that depends on it, in a group at its end. All ranks are on one
// node here.
//
// Nodes.* run with TERSE_SCHEME="allreduce,sendrecv nodes=1 bytes=4K.. -> int4"
// OtherNodes.* with TERSE_SCHEME="allreduce,alltoall,broadcast,sendrecv nodes=2.. bytes=4K.. ->
// int4"
#include <gtest/gtest.h>
#include <hostnccl.h>
#include <nccl.h>

#include <cmath>
#include <latch>
#include <string>
#include <vector>

#include "clients.h"

namespace terse::test {
namespace {

constexpr size_t kCount = 50'000, kSmall = 100;

using Floats = std::vector<float>;

// What int4 cannot hold.
Floats wave(int rank, size_t count = kCount) {
  Floats x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 97 + rank);
  return x;
}

Floats sum(int ranks, size_t count = kCount) {
  Floats x(count);
  for (int r = 0; r < ranks; ++r) {
    const Floats part = wave(r, count);
    for (size_t i = 0; i < count; ++i) x[i] += part[i];
  }
  return x;
}

void expect_compressed(const Floats& x, const Floats& truth) {
  EXPECT_NE(x, truth);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], truth[i], 0.2f * 97 * 3) << i;
}

class Stream {
 public:
  Stream() { EXPECT_EQ(hostncclStreamCreate(&stream_), ncclSuccess); }
  ~Stream() { hostncclStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }
  void wait() const { EXPECT_EQ(hostncclStreamSynchronize(stream_), ncclSuccess); }

 private:
  cudaStream_t stream_ = nullptr;
};

ncclResult_t all_reduce(Floats& x, ncclComm_t comm, cudaStream_t stream) {
  return ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comm, stream);
}

bool says(ncclComm_t comm, const char* part) {
  return std::string(ncclGetLastError(comm)).find(part) != std::string::npos;
}

TEST(Nodes, AFirstCallInAGroup) {
  const int ranks = 3;
  const Floats truth = sum(ranks), small_truth = sum(ranks, kSmall);
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_unseen(rank, ranks, id);
    const Stream stream;
    for (int round = 0; round < 2; ++round) {
      Floats large = wave(rank), also = wave(rank), small = wave(rank, kSmall);
      int64_t number = 5;
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(settled(all_reduce(large, comm, stream), comm), ncclSuccess)
          << ncclGetLastError(comm);
      ncclAllReduce(&number, &number, 1, ncclInt64, ncclSum, comm, stream);
      all_reduce(small, comm, stream);
      all_reduce(also, comm, stream);
      ASSERT_EQ(settled(ncclGroupEnd(), comm), ncclSuccess) << ncclGetLastError(comm);
      stream.wait();
      expect_compressed(large, truth);
      EXPECT_EQ(large, also);
      EXPECT_EQ(small, small_truth);
      EXPECT_EQ(number, 15);
    }
    ncclCommDestroy(comm);
  });
}

// Which cannot call for one rank after the other but in a group.
TEST(Nodes, OneThreadForAllRanks) {
  constexpr int kRanks = 3;
  std::vector<ncclComm_t> comms(kRanks);
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    comms[static_cast<size_t>(rank)] = made_unseen(rank, kRanks, id);
  });
  std::vector<Floats> data;
  for (int r = 0; r < kRanks; ++r) data.push_back(wave(r));
  const Stream stream;
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < kRanks; ++r) all_reduce(data[r], comms[r], stream);
  const ncclResult_t result = ncclGroupEnd();
  for (const ncclComm_t comm : comms)
    ASSERT_EQ(settled(result, comm), ncclSuccess) << ncclGetLastError(comm);
  stream.wait();
  for (const Floats& x : data) {
    expect_compressed(x, sum(kRanks));
    EXPECT_EQ(x, data[0]);
  }
  for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
}

// A ring: to the next rank, from the one before.
ncclResult_t exchange(const Floats& out, Floats& in, int rank, int ranks, ncclComm_t comm,
                      cudaStream_t stream) {
  ncclGroupStart();
  ncclSend(out.data(), out.size(), ncclFloat32, (rank + 1) % ranks, comm, stream);
  ncclRecv(in.data(), in.size(), ncclFloat32, (rank + ranks - 1) % ranks, comm, stream);
  return ncclGroupEnd();
}

TEST(Nodes, MessagesBesideTheFirstCallOfAllRanks) {
  const int ranks = 3;
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_unseen(rank, ranks, id);
    const Stream stream;
    const Floats out = wave(rank), small = wave(rank, kSmall);
    Floats reduced = wave(rank), in(kCount), small_in(kSmall);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    exchange(small, small_in, rank, ranks, comm, stream);
    exchange(out, in, rank, ranks, comm, stream);
    all_reduce(reduced, comm, stream);
    ASSERT_EQ(settled(ncclGroupEnd(), comm), ncclSuccess) << ncclGetLastError(comm);
    stream.wait();
    const int before = (rank + ranks - 1) % ranks;
    EXPECT_EQ(small_in, wave(before, kSmall));
    expect_compressed(in, wave(before));
    expect_compressed(reduced, sum(ranks));
    ncclCommDestroy(comm);
  });
}

TEST(Nodes, MessagesAloneCannotBeTheFirst) {
  const int ranks = 3;
  std::latch asked(ranks);  // what was said last, which is the process's
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_unseen(rank, ranks, id);
    const Stream stream;
    const Floats out = wave(rank), small = wave(rank, kSmall);
    Floats in(kCount, -1), small_in(kSmall);
    EXPECT_EQ(exchange(out, in, rank, ranks, comm, stream), ncclInvalidUsage);
    for (const char* part :
         {"ncclGroupEnd: a new communicator, rank ", " of 3: Send", "number of nodes"})
      EXPECT_TRUE(says(comm, part)) << ncclGetLastError(comm);
    asked.arrive_and_wait();
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the group is over";
    // What does not depend on it goes, and after a call of all ranks all does.
    ASSERT_EQ(settled(exchange(small, small_in, rank, ranks, comm, stream), comm), ncclSuccess);
    stream.wait();
    EXPECT_EQ(small_in, wave((rank + ranks - 1) % ranks, kSmall));
    EXPECT_EQ(in, Floats(kCount, -1));
    Floats reduced = wave(rank);
    ASSERT_EQ(settled(all_reduce(reduced, comm, stream), comm), ncclSuccess);
    ASSERT_EQ(settled(exchange(out, in, rank, ranks, comm, stream), comm), ncclSuccess);
    stream.wait();
    expect_compressed(reduced, sum(ranks));
    expect_compressed(in, wave((rank + ranks - 1) % ranks));
    ncclCommDestroy(comm);
  });
}

// A sum of twice everything, by an operator that is gone before the group's end.
void double_in_a_group(Floats& x, ncclComm_t comm, const Stream& stream) {
  float two = 2;
  ncclRedOp_t op;
  ASSERT_EQ(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarHostImmediate, comm),
            ncclSuccess);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, op, comm, stream),
            ncclSuccess);
  EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclSuccess);
  ASSERT_EQ(settled(ncclGroupEnd(), comm), ncclSuccess) << ncclGetLastError(comm);
  stream.wait();
  EXPECT_EQ(ncclRedOpDestroy(op, comm), ncclInvalidArgument) << "it is gone";
}

TEST(Nodes, AnOperatorMayGoBeforeTheGroupsEnd) {
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_unseen(rank, 2, id);
    Floats x = wave(rank), truth = sum(2);
    double_in_a_group(x, comm, Stream());
    for (float& value : truth) value *= 2;
    expect_compressed(x, truth);
    ncclCommDestroy(comm);
  });
}

TEST(OtherNodes, AnOperatorMayGoBeforeTheGroupsEnd) {
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_unseen(rank, 2, id);
    Floats x = wave(rank), truth = sum(2);
    double_in_a_group(x, comm, Stream());
    for (float& value : truth) value *= 2;
    EXPECT_EQ(x, truth);
    ncclCommDestroy(comm);
  });
}

// What then stays native goes to NCCL late, and is exact.
TEST(OtherNodes, AFirstCallInAGroup) {
  const int ranks = 3;
  on_threads(ranks, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_unseen(rank, ranks, id);
    const Stream stream;
    Floats reduced = wave(rank), told = wave(rank), in(kCount);
    const Floats pieces = wave(rank, 3 * kSmall * 10), out = wave(rank);
    Floats received(pieces.size());
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    all_reduce(reduced, comm, stream);
    ncclBcast(told.data(), kCount, ncclFloat32, 1, comm, stream);
    ncclAlltoAll(pieces.data(), received.data(), kSmall * 10, ncclFloat32, comm, stream);
    exchange(out, in, rank, ranks, comm, stream);
    ASSERT_EQ(settled(ncclGroupEnd(), comm), ncclSuccess) << ncclGetLastError(comm);
    stream.wait();
    EXPECT_EQ(reduced, sum(ranks));
    EXPECT_EQ(told, wave(1));
    EXPECT_EQ(in, wave((rank + ranks - 1) % ranks));
    for (int p = 0; p < ranks; ++p)
      EXPECT_EQ(received[p * kSmall * 10], wave(p, 3 * kSmall * 10)[rank * kSmall * 10]);
    ncclCommDestroy(comm);
  });
}

}  // namespace
}  // namespace terse::test
