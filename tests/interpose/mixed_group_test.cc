// A group of a collective and messages of which only some are compressed, and not the same ones on
// all ranks. Under TERSE_SCHEME="sendrecv -> int8; int8", TERSE_MIN_BYTES=1.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "clients.h"
#include "host_stream.h"

namespace terse::test {
namespace {

constexpr size_t kBytes = 24'156, kFloats = 23'152, kSum = 70'000;

int8_t byte_at(size_t i) { return static_cast<int8_t>(i * 7 % 251); }
float float_at(size_t i, int rank) { return std::sin(static_cast<float>(i)) + rank; }

// Rank 0 sends what stays native to rank 1, which sends what is compressed to rank 2.
TEST(MixedGroup, MessagesKeepTheirPlaceOnEveryRank) {
  on_threads(3, [&](int rank, const ncclUniqueId& id) {
    const ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
    const ncclComm_t comm = made_with(blocking, rank, 3, id);
    std::vector<int8_t> bytes(kBytes);
    std::vector<float> floats(kFloats), sum(kSum);
    for (size_t i = 0; i < kBytes; ++i) bytes[i] = rank == 0 ? byte_at(i) : int8_t{0};
    for (size_t i = 0; i < kFloats; ++i) floats[i] = rank == 1 ? float_at(i, 1) : 0;
    for (size_t i = 0; i < kSum; ++i) sum[i] = float_at(i, rank);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    if (rank == 0) {
      EXPECT_EQ(ncclSend(bytes.data(), kBytes, ncclInt8, 1, comm, nullptr), ncclSuccess);
    } else if (rank == 1) {
      EXPECT_EQ(ncclRecv(bytes.data(), kBytes, ncclInt8, 0, comm, nullptr), ncclSuccess);
      EXPECT_EQ(ncclSend(floats.data(), kFloats, ncclFloat32, 2, comm, nullptr), ncclSuccess);
    } else {
      EXPECT_EQ(ncclRecv(floats.data(), kFloats, ncclFloat32, 1, comm, nullptr), ncclSuccess);
    }
    EXPECT_EQ(ncclAllReduce(sum.data(), sum.data(), kSum, ncclFloat32, ncclSum, comm, nullptr),
              ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
    size_t wrong_bytes = 0, wrong_floats = 0, wrong_sums = 0, exact_floats = 0;
    for (size_t i = 0; i < kBytes; ++i) wrong_bytes += rank < 2 && bytes[i] != byte_at(i);
    for (size_t i = 0; i < kFloats && rank == 2; ++i) {
      wrong_floats += !(std::abs(floats[i] - float_at(i, 1)) < 0.01f);
      exact_floats += floats[i] == float_at(i, 1);
    }
    for (size_t i = 0; i < kSum; ++i)
      wrong_sums += !(std::abs(sum[i] - (3 * float_at(i, 0) + 3)) < 0.06f);
    EXPECT_EQ(wrong_bytes, 0u) << "on rank " << rank;
    EXPECT_EQ(wrong_floats, 0u) << "on rank " << rank;
    EXPECT_EQ(wrong_sums, 0u) << "on rank " << rank;
    EXPECT_LT(exact_floats, kFloats / 2) << "they were to be compressed";
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// A rank has in a group what the other one calls one by one, a compressed sum and a message: of any
// length, also that of the packed sum.
class PartlyGrouped {
 public:
  PartlyGrouped(int rank, const ncclUniqueId& id, bool grouped_sends)
      : comm_(made_with(NCCL_CONFIG_INITIALIZER, rank, 2, id)),
        grouped_(rank == 0),
        sends_(grouped_ == grouped_sends) {}
  ~PartlyGrouped() { EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess); }

  void exchange(size_t floats) {
    constexpr size_t kSummed = 1024;
    std::vector<float> sum(kSummed, 1), message(floats, sends_ ? 7 : 0);
    if (grouped_) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    }
    EXPECT_EQ(ncclAllReduce(sum.data(), sum.data(), kSummed, ncclFloat32, ncclSum, comm_, nullptr),
              ncclSuccess);
    EXPECT_EQ(sends_ ? ncclSend(message.data(), floats, ncclFloat32, grouped_, comm_, nullptr)
                     : ncclRecv(message.data(), floats, ncclFloat32, grouped_, comm_, nullptr),
              ncclSuccess)
        << ncclGetLastError(comm_);
    if (grouped_) {
      EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm_);
    }
    EXPECT_EQ(sum, std::vector<float>(kSummed, 2)) << "beside " << floats;
    EXPECT_EQ(message, std::vector<float>(floats, 7));
  }

 private:
  const ncclComm_t comm_;
  const bool grouped_, sends_;
};

TEST(PartlyGrouped, MessagesFollowTheSumsOfTheirGroup) {
  for (const bool grouped_sends : {true, false})
    on_threads(2, [&](int rank, const ncclUniqueId& id) {
      PartlyGrouped each(rank, id, grouped_sends);
      for (const size_t floats : {1, 100, 264, 1024, 50'000}) each.exchange(floats);
    });
}

// NCCL's own call waits for the stream of the compressed one, and that stream goes on after it.
TEST(MixedGroup, IsAsIfPostedOnEachOfItsStreams) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    const ncclConfig_t blocking = NCCL_CONFIG_INITIALIZER;
    const ncclComm_t comm = made_with(blocking, rank, 2, id);
    {
      const HostStream first, second;
      const std::vector<int64_t> fives(10, 5);
      std::vector<int64_t> native(10), after(10);
      std::vector<float> compressed(kSum, 1.0f);
      SlowCopy<int64_t> fill{fives, native, std::chrono::milliseconds(50)}, see{native, after};
      ASSERT_EQ(fill.on(second.get()), ncclSuccess);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(ncclAllReduce(native.data(), native.data(), native.size(), ncclInt64, ncclSum, comm,
                              first.get()),
                ncclSuccess);
      EXPECT_EQ(ncclAllReduce(compressed.data(), compressed.data(), kSum, ncclFloat32, ncclSum,
                              comm, second.get()),
                ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
      ASSERT_EQ(see.on(second.get()), ncclSuccess);
      ASSERT_EQ(first.synchronize(), ncclSuccess);
      ASSERT_EQ(second.synchronize(), ncclSuccess);
      EXPECT_EQ(after, std::vector<int64_t>(10, 10));
      EXPECT_EQ(compressed, std::vector<float>(kSum, 2.0f));
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// So it is where none of a group's calls is compressed, but others of the program are.
TEST(PartlyGrouped, NativeCallsAndMessagesAreAsIfPostedOnEachOfTheirStreams) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_with(NCCL_CONFIG_INITIALIZER, rank, 2, id);
    {
      const HostStream first, second;
      const std::vector<int64_t> fives(10, 5), sevens(10, 7);
      std::vector<int64_t> summed(10), sent(10), received(10), seen(10), sum_seen(10);
      SlowCopy<int64_t> fill_summed{fives, summed, std::chrono::milliseconds(80)},
          fill_sent{sevens, sent, std::chrono::milliseconds(40)};
      SlowCopy<int64_t> see_received{received, seen}, see_sum{summed, sum_seen};
      ASSERT_EQ(fill_summed.on(second.get()), ncclSuccess);
      ASSERT_EQ(fill_sent.on(first.get()), ncclSuccess);
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      EXPECT_EQ(
          ncclAllReduce(summed.data(), summed.data(), 10, ncclInt64, ncclSum, comm, first.get()),
          ncclSuccess);
      EXPECT_EQ(ncclSend(sent.data(), 10, ncclInt64, 1 - rank, comm, second.get()), ncclSuccess);
      EXPECT_EQ(ncclRecv(received.data(), 10, ncclInt64, 1 - rank, comm, second.get()),
                ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(comm);
      ASSERT_EQ(see_received.on(first.get()), ncclSuccess);
      ASSERT_EQ(see_sum.on(second.get()), ncclSuccess);
      ASSERT_EQ(first.synchronize(), ncclSuccess);
      ASSERT_EQ(second.synchronize(), ncclSuccess);
      EXPECT_EQ(seen, sevens);
      EXPECT_EQ(sum_seen, std::vector<int64_t>(10, 10));
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
