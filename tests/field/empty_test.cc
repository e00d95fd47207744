// Calls of nothing, and of less than a block.
#include <gtest/gtest.h>

#include <cmath>

#include "host_stream.h"
#include "programs.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr int kRanks = 3;
constexpr size_t kCollectives = 8;  // Send and Recv are not among them

class Empty : public EachScheme {
 protected:
  // A sum of ones after all that a test did: the communicator is as good as before.
  void expect_usable(ncclComm_t comm) const {
    Floats ones(1000, 1.0f);
    ASSERT_EQ(
        ncclAllReduce(ones.data(), ones.data(), ones.size(), ncclFloat32, ncclSum, comm, nullptr),
        ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_NEAR(ones[999], kRanks, kRanks * 2 * step(scheme()));
  }
};

// pytorch/pytorch#85234: a division by the number of elements, which was zero.
TEST_P(Empty, CollectivesOfNothing) {
  on_ranks(kRanks, scheme(), [&](int, ncclComm_t comm) {
    Fenced memory(0);  // of which not a byte may be read
    for (size_t k = 0; k < kCollectives; ++k)
      for (char* const buffer : {memory.data(), static_cast<char*>(nullptr)}) {
        const Call call{.collective = static_cast<Collective>(k)};
        EXPECT_EQ(call_nccl(call, buffer, buffer, comm, nullptr), ncclSuccess)
            << name(call.collective) << ": " << ncclGetLastError(comm);
      }
    expect_usable(comm);
  });
}

TEST_P(Empty, CollectivesOfNothingInAGroupOfOthers) {
  on_ranks(kRanks, scheme(), [&](int, ncclComm_t comm) {
    Floats ones(2000, 1.0f), gathered(kRanks * ones.size());
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (size_t k = 0; k < kCollectives; ++k)
      call_nccl({.collective = static_cast<Collective>(k)}, nullptr, nullptr, comm, nullptr);
    ncclAllGather(ones.data(), gathered.data(), ones.size(), ncclFloat32, comm, nullptr);
    ncclAllGather(nullptr, nullptr, 0, ncclBfloat16, comm, nullptr);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    for (const float x : gathered) ASSERT_NEAR(x, 1, step(scheme()));
    expect_usable(comm);
  });
}

// A rank's part of an all-to-all by messages, of which rank `from` sends `count` elements to each
// rank and the others send nothing. With `empty` what is nothing is a message, too.
void send_to_all(int rank, int from, size_t count, bool empty, const Floats& out, Floats& in,
                 ncclComm_t comm, cudaStream_t stream) {
  const auto sent_by = [&](int sender) { return sender == from ? count : 0; };
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int peer = 0; peer < kRanks; ++peer) {
    if (empty || sent_by(rank) != 0)
      ncclSend(out.data(), sent_by(rank), ncclFloat32, peer, comm, stream);
    if (empty || sent_by(peer) != 0)
      ncclRecv(in.data(), sent_by(peer), ncclFloat32, peer, comm, stream);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
}

// pytorch/pytorch#146468: all_to_all_single hung where some ranks sent nothing.
TEST_P(Empty, OneRankAloneSends) {
  on_ranks(kRanks, scheme(), [&](int rank, ncclComm_t comm) {
    for (int from = 0; from < kRanks; ++from)
      for (const bool empty : {false, true})
        for (const size_t count : {1, 5000}) {
          const Floats out(count, static_cast<float>(rank + 1));
          Floats in(count);
          const HostStream stream;
          send_to_all(rank, from, count, empty, out, in, comm, stream.get());
          ASSERT_EQ(stream.synchronize(), ncclSuccess);
          for (const float x : in) ASSERT_NEAR(x, from + 1, (from + 1) * step(scheme()));
        }
    expect_usable(comm);
  });
}

// cupynumeric#727: fewer elements than ranks, or than a block.
TEST_P(Empty, FewerElementsThanABlock) {
  std::vector<Case> cases;
  for (size_t k = 0; k < kCollectives; ++k)
    for (const size_t count : {1, 2, 3, 31, 33})
      for (const ncclDataType_t type : {ncclFloat32, ncclBfloat16}) {
        Case c{.call = {.collective = static_cast<Collective>(k),
                        .datatype = type,
                        .count = count,
                        .root = kRanks - 1},
               .gap = 2};
        for (int r = 0; r < kRanks; ++r)
          c.sent.push_back(
              bytes_of(Floats(send_count(c.call, kRanks), static_cast<float>(r + 1)), type));
        cases.push_back(std::move(c));
      }
  const Results got = play(scheme(), kRanks, cases), want = play(kNative, kRanks, cases);
  for (size_t i = 0; i < cases.size(); ++i)
    for (int r = 0; r < kRanks; ++r) {
      const ncclDataType_t type = cases[i].call.datatype;
      const auto found = values(got.received[i][r], type);
      const auto truth = values(want.received[i][r], type);
      ASSERT_EQ(found.size(), truth.size());
      for (size_t k = 0; k < found.size(); ++k)
        ASSERT_NEAR(found[k], truth[k], 6 * 2 * step(scheme())) << "case " << i << ", rank " << r;
    }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Empty, kSchemes);

}  // namespace
}  // namespace terse::test
