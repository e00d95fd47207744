// Launches of sends and receives that are under way at the same time, on streams of their own: how
// far they get without each other, the order of their messages, and their ends.
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "reference.h"
#include "streams.h"

namespace hostnccl_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

bool ends_soon(cudaStream_t stream, Clock::duration patience = 10s) {
  const Clock::time_point limit = Clock::now() + patience;
  while (hostncclStreamQuery(stream) == ncclInProgress) {
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

ncclResult_t send_one(const int& value, int peer, ncclComm_t comm, cudaStream_t stream) {
  return ncclSend(&value, 1, ncclInt32, peer, comm, stream);
}
ncclResult_t receive_one(int& value, int peer, ncclComm_t comm, cudaStream_t stream) {
  return ncclRecv(&value, 1, ncclInt32, peer, comm, stream);
}

// Rank 0 receives from two ranks at once, of which one is late: the other one's message is through
// before, whether it was asked for first or second.
class LateRank : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Is, LateRank, ::testing::Values(1, 2));

TEST_P(LateRank, DoesNotHoldUpTheOther) {
  const int late = GetParam(), prompt = 3 - late;
  const Clique clique(3);
  const Stream receive[3], send[3];
  int sent[3] = {0, 10, 20}, received[3] = {};
  Gate gate(send[late]);
  for (int r = 1; r < 3; ++r) ASSERT_NCCL(receive_one(received[r], r, clique[0], receive[r]));
  for (int r = 1; r < 3; ++r) ASSERT_NCCL(send_one(sent[r], 0, clique[r], send[r]));
  EXPECT_TRUE(ends_soon(receive[prompt]));
  EXPECT_EQ(received[prompt], 10 * prompt);
  EXPECT_EQ(ncclInProgress, hostncclStreamQuery(receive[late]));

  // There is room for one more beside the late one. A collective runs alone, after all before it.
  int again = 0, sum[3] = {1, 2, 3};
  ASSERT_NCCL(receive_one(again, prompt, clique[0], receive[prompt]));
  ASSERT_NCCL(send_one(sent[prompt], 0, clique[prompt], send[prompt]));
  EXPECT_TRUE(ends_soon(receive[prompt]));
  EXPECT_EQ(again, 10 * prompt);
  const Stream collective[3];
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&sum[r], &sum[r], 1, ncclInt32, ncclSum, comm, collective[r]);
  }));
  ASSERT_NCCL(receive_one(again, late, clique[0], receive[prompt]));
  ASSERT_NCCL(send_one(sent[late], 0, clique[late], send[late]));
  EXPECT_EQ(ncclInProgress, hostncclStreamQuery(receive[late]));

  gate.open();
  for (const Stream& s : receive) ASSERT_NCCL(hostncclStreamSynchronize(s));
  for (const Stream& s : collective) ASSERT_NCCL(hostncclStreamSynchronize(s));
  for (const Stream& s : send) ASSERT_NCCL(hostncclStreamSynchronize(s));
  EXPECT_EQ(received[late], 10 * late);
  EXPECT_EQ(again, 10 * late);
  EXPECT_EQ(sum[0], 6);
}

// The newest launch is through, the one before it is not.
TEST(Overlap, FinalizeWaitsForAllLaunches) {
  const Clique clique(3);
  const Stream first, second, send[3];
  int value = 7, received[3] = {};
  Gate gate(send[1]);
  ASSERT_NCCL(receive_one(received[1], 1, clique[0], first));
  ASSERT_NCCL(receive_one(received[2], 2, clique[0], second));
  for (int r = 1; r < 3; ++r) ASSERT_NCCL(send_one(value, 0, clique[r], send[r]));
  EXPECT_TRUE(ends_soon(second));
  std::atomic<bool> finalized{false};
  std::thread thread([&] {
    EXPECT_NCCL(ncclCommFinalize(clique[0]));
    finalized = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(finalized);
  gate.open();
  thread.join();
  EXPECT_EQ(received[1], 7);
}

constexpr size_t kLarge = size_t{9} << 20;  // more than two windows of pieces

size_t random_size(std::mt19937& random) {
  static constexpr size_t kSizes[] = {0,     1,     64,       4096,     70000,
                                      65536, 65536, 3u << 20, 1u << 20, kLarge};
  return kSizes[random() % std::size(kSizes)];
}

// One message of the traffic between two ranks, with contents of its own.
struct Mail {
  int from, to;
  std::vector<char> sent, received;
};

// Rank 0 and rank 1 talk to each other and to rank 2 through streams that take turns, two launches
// under way; rank 2 takes a few messages in each launch. Whatever overlaps, messages between two
// ranks keep their order.
TEST(Overlap, MessagesOfAPairKeepTheirOrder) {
  const int launches = 48;
  const Clique clique(3);
  std::mt19937 random(11);
  std::vector<Mail> mails;
  for (int i = 0; i < launches; ++i) {
    for (const auto& [from, to] : {std::pair(0, 1), {1, 0}, {0, 2}, {2, 1}}) {
      Mail mail{from, to, std::vector<char>(random_size(random)), {}};
      for (size_t k = 0; k < mail.sent.size(); k += 61) mail.sent[k] = static_cast<char>(random());
      mail.received.assign(mail.sent.size(), '\x55');
      mails.push_back(std::move(mail));
    }
  }
  on_threads(3, [&](int rank) {
    const Stream streams[2];
    const size_t together = rank == 2 ? 12 : 4;  // the mails of how many launches
    for (size_t i = 0; i < mails.size(); i += together) {
      const cudaStream_t stream = streams[i / together % 2];
      ASSERT_NCCL(ncclGroupStart());
      for (size_t k = i; k < i + together; ++k) {
        Mail& mail = mails[k];
        if (mail.from == rank) {
          ASSERT_NCCL(ncclSend(mail.sent.data(), mail.sent.size(), ncclInt8, mail.to, clique[rank],
                               stream));
        } else if (mail.to == rank) {
          ASSERT_NCCL(ncclRecv(mail.received.data(), mail.received.size(), ncclInt8, mail.from,
                               clique[rank], stream));
        }
      }
      ASSERT_NCCL(ncclGroupEnd());
    }
    for (const Stream& stream : streams) EXPECT_NCCL(hostncclStreamSynchronize(stream));
  });
  for (size_t k = 0; k < mails.size(); ++k) {
    EXPECT_TRUE(mails[k].sent == mails[k].received) << k << ": " << mails[k].sent.size();
  }
}

// A second launch that would overtake: its message is tiny, the first one's is large, and both go
// to the same rank, which asks for them in the same order.
TEST(Overlap, ATinyMessageDoesNotOvertakeALargeOne) {
  const Clique clique(2);
  std::vector<char> large(kLarge, 'L'), large_received(kLarge);
  for (int round = 0; round < 4; ++round) {
    const Stream first[2], second[2];
    char tiny = 't', tiny_received = 0;
    large_received.assign(kLarge, 0);
    ASSERT_NCCL(ncclSend(large.data(), kLarge, ncclInt8, 1, clique[0], first[0]));
    ASSERT_NCCL(ncclSend(&tiny, 1, ncclInt8, 1, clique[0], second[0]));
    ASSERT_NCCL(ncclRecv(large_received.data(), kLarge, ncclInt8, 0, clique[1], first[1]));
    ASSERT_NCCL(ncclRecv(&tiny_received, 1, ncclInt8, 0, clique[1], second[1]));
    ASSERT_NCCL(hostncclStreamSynchronize(second[1]));
    EXPECT_EQ(tiny_received, 't');
    EXPECT_EQ(large_received, large);
    for (int r = 0; r < 2; ++r) ASSERT_NCCL(hostncclStreamSynchronize(first[r]));
    ASSERT_NCCL(hostncclStreamSynchronize(second[0]));
  }
}

TEST(Overlap, AbortEndsAllThatIsUnderWay) {
  ncclComm_t comms[3];
  ASSERT_NCCL(ncclCommInitAll(comms, 3, nullptr));
  const Stream streams[3];
  std::vector<char> data[3];
  for (int i = 0; i < 3; ++i) {  // two are under way, one is queued; nobody sends
    data[i].resize(kLarge);
    ASSERT_NCCL(ncclRecv(data[i].data(), kLarge, ncclInt8, 1 + i % 2, comms[0], streams[i]));
  }
  std::this_thread::sleep_for(20ms);
  const Clock::time_point start = Clock::now();
  EXPECT_NCCL(ncclCommAbort(comms[0]));
  for (const Stream& stream : streams) EXPECT_NE(ncclSuccess, hostncclStreamSynchronize(stream));
  EXPECT_LT(Clock::now() - start, 20s);
  for (int r = 1; r < 3; ++r) EXPECT_NCCL(ncclCommAbort(comms[r]));
}

// The second of two launches has a message that does not fit: both end, and it is named.
TEST(Overlap, TheCallThatFailsIsNamed) {
  const Clique clique(3);
  const Stream first, second, send;
  int in[2] = {}, out[2] = {};
  ASSERT_NCCL(ncclRecv(in, 1, ncclInt32, 1, clique[0], first));
  ASSERT_NCCL(ncclRecv(in, 2, ncclInt32, 2, clique[0], second));
  ASSERT_NCCL(ncclSend(out, 1, ncclInt32, 0, clique[2], send));
  EXPECT_EQ(ncclInvalidUsage, hostncclStreamSynchronize(second));
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find("ncclRecv(2 int32"), std::string::npos) << text;
  EXPECT_NE(ncclSuccess, hostncclStreamSynchronize(first));
}

// A call that waits for a rank that has left is ended, however busy others keep the communicator.
TEST(Overlap, ARankThatLeftIsNoticedBesideOtherTraffic) {
  setenv("HOSTNCCL_TIMEOUT", "1", 1);
  ncclComm_t comms[3];
  ASSERT_NCCL(ncclCommInitAll(comms, 3, nullptr));
  unsetenv("HOSTNCCL_TIMEOUT");
  EXPECT_NCCL(ncclCommDestroy(comms[2]));
  const Stream waiting;
  int never = 0;
  ASSERT_NCCL(receive_one(never, 2, comms[0], waiting));
  const Clock::time_point limit = Clock::now() + 10s;
  ncclResult_t results[2] = {};
  on_threads(2, [&](int r) {
    const Stream stream;
    int value[2] = {};
    while (results[r] == ncclSuccess && Clock::now() < limit) {
      EXPECT_NCCL(ncclGroupStart());
      (void)send_one(value[0], 1 - r, comms[r], stream);
      (void)receive_one(value[1], 1 - r, comms[r], stream);
      results[r] = ncclGroupEnd();
      if (results[r] == ncclSuccess) results[r] = hostncclStreamSynchronize(stream);
    }
  });
  EXPECT_EQ(ncclRemoteError, results[0]);
  EXPECT_EQ(ncclRemoteError, hostncclStreamSynchronize(waiting));
  for (int r = 0; r < 2; ++r) EXPECT_NCCL(ncclCommAbort(comms[r]));
}

// Its message has come, and the call waits for another rank's, which is late.
TEST(Overlap, ARankMayLeaveThatNobodyWaitsForAnyMore) {
  setenv("HOSTNCCL_TIMEOUT", "4", 1);
  ncclComm_t comms[3];
  ASSERT_NCCL(ncclCommInitAll(comms, 3, nullptr));
  unsetenv("HOSTNCCL_TIMEOUT");
  const Stream receive;
  int sent[3] = {0, 10, 20}, received[3] = {};
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 1; r < 3; ++r) ASSERT_NCCL(receive_one(received[r], r, comms[0], receive));
  ASSERT_NCCL(ncclGroupEnd());
  ASSERT_NCCL(send_one(sent[1], 0, comms[1], nullptr));
  EXPECT_NCCL(ncclCommDestroy(comms[1]));
  std::this_thread::sleep_for(5500ms);  // for longer than the timeout
  EXPECT_EQ(ncclInProgress, hostncclStreamQuery(receive));
  EXPECT_NCCL(send_one(sent[2], 0, comms[2], nullptr));
  EXPECT_NCCL(hostncclStreamSynchronize(receive));
  for (int r = 1; r < 3; ++r) EXPECT_EQ(received[r], sent[r]);
  for (const int r : {0, 2}) EXPECT_NCCL(ncclCommDestroy(comms[r]));
}

}  // namespace
}  // namespace hostnccl_test
