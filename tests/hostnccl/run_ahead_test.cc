// How far a rank gets ahead of one that is late: as far as a window of messages, which wait in
// memory, and no farther; and that who keeps up is never waited for.
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "reference.h"

namespace hostnccl_test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A call in which rank 0 needs nothing from rank 1.
struct OneWay {
  const char* name;
  ncclResult_t (*call)(const char* send, char* recv, size_t bytes, int rank, ncclComm_t comm);
};
void PrintTo(const OneWay& way, std::ostream* out) { *out << way.name; }
const OneWay kOneWay[] = {
    {"Send",
     [](const char* send, char* recv, size_t bytes, int rank, ncclComm_t comm) {
       return rank == 0 ? ncclSend(send, bytes, ncclInt8, 1, comm, nullptr)
                        : ncclRecv(recv, bytes, ncclInt8, 0, comm, nullptr);
     }},
    {"Broadcast",
     [](const char* send, char* recv, size_t bytes, int, ncclComm_t comm) {
       return ncclBroadcast(send, recv, bytes, ncclInt8, 0, comm, nullptr);
     }},
    {"Reduce",
     [](const char* send, char* recv, size_t bytes, int, ncclComm_t comm) {
       return ncclReduce(send, recv, bytes, ncclInt8, ncclMax, 1, comm, nullptr);
     }},
    {"Gather",
     [](const char* send, char* recv, size_t bytes, int, ncclComm_t comm) {
       return ncclGather(send, recv, bytes / 2, ncclInt8, 1, comm, nullptr);
     }},
    {"Scatter",
     [](const char* send, char* recv, size_t bytes, int, ncclComm_t comm) {
       return ncclScatter(send, recv, bytes / 2, ncclInt8, 0, comm, nullptr);
     }},
};

class RunAhead : public ::testing::TestWithParam<std::tuple<OneWay, size_t>> {};
INSTANTIATE_TEST_SUITE_P(Of, RunAhead,
                         ::testing::Combine(::testing::ValuesIn(kOneWay),
                                            ::testing::Values(2, 200'000, 1'500'000)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name +
                                  std::to_string(std::get<1>(info.param));
                         });

// Waits until the counter rests.
int settled(const std::atomic<int>& counter, int end) {
  int seen = counter;
  for (Clock::time_point since = Clock::now(); seen < end && Clock::now() - since < 200ms;) {
    std::this_thread::sleep_for(5ms);
    if (counter == seen) continue;
    seen = counter;
    since = Clock::now();
  }
  return counter;
}

TEST_P(RunAhead, IsBounded) {
  const auto [way, bytes] = GetParam();
  // Some calls send half of it; and a message takes memory beside its bytes.
  const int limit = static_cast<int>((size_t{5} << 20) / (bytes / 2 + 1024)) + 1;
  const int calls = 2 * limit;
  const Clique clique(2);
  std::atomic<int> done{0};
  std::thread sender([&, &way = way, &bytes = bytes] {
    std::vector<char> data(bytes), ignored(bytes);
    for (; done < calls; ++done) {
      std::fill(data.begin(), data.end(), static_cast<char>(done % 100));
      ASSERT_NCCL(way.call(data.data(), ignored.data(), bytes, 0, clique[0]));
    }
  });
  EXPECT_LE(settled(done, calls), limit);
  std::vector<char> own(bytes, -1), data(bytes);
  for (int i = 0; i < calls; ++i) {
    ASSERT_NCCL(way.call(own.data(), data.data(), bytes, 1, clique[1]));
    ASSERT_EQ(data.front(), i % 100);
    ASSERT_EQ(data[bytes / 2 - 1], i % 100);
  }
  sender.join();
}

// Both send before they receive. As long as each takes what was sent to it before it sends more,
// nobody waits for the other, however much it is in all.
class MessageOrder : public ::testing::TestWithParam<std::pair<size_t, int>> {};
INSTANTIATE_TEST_SUITE_P(Of, MessageOrder,
                         ::testing::Values(std::pair<size_t, int>(1, 20'000),
                                           std::pair<size_t, int>(1u << 20, 64),
                                           std::pair<size_t, int>(3u << 19, 64)));

TEST_P(MessageOrder, NeverWait) {
  const auto [bytes, turns] = GetParam();
  const Clique clique(2);
  on_threads(2, [&, bytes = bytes, turns = turns](int r) {
    std::vector<char> sent(bytes), received(bytes);
    for (int i = 0; i < turns; ++i) {
      sent[bytes / 2] = static_cast<char>(i % 50 + 50 * r);
      ASSERT_NCCL(ncclSend(sent.data(), bytes, ncclInt8, 1 - r, clique[r], nullptr));
      ASSERT_NCCL(ncclRecv(received.data(), bytes, ncclInt8, 1 - r, clique[r], nullptr));
      ASSERT_EQ(received[bytes / 2], i % 50 + 50 * (1 - r));
    }
  });
}

// All of a group is under way at once, however many messages it has; here they wait for each other
// in a circle.
TEST(RunAhead, AGroupOfManyMessagesGoesRound) {
  constexpr int kRanks = 3, kMessages = 10'000;
  const Clique clique(kRanks);
  on_threads(kRanks, [&](int r) {
    const int next = (r + 1) % kRanks, previous = (r + kRanks - 1) % kRanks;
    std::vector<int> sent(kMessages), received(kMessages);
    for (int i = 0; i < kMessages; ++i) sent[static_cast<size_t>(i)] = kMessages * r + i;
    for (int before = 0; before < 3; ++before) {  // outside of it, too
      ASSERT_NCCL(ncclSend(&before, 1, ncclInt32, next, clique[r], nullptr));
    }
    ASSERT_NCCL(ncclGroupStart());
    for (int before = 0; before < 3; ++before) {
      ASSERT_NCCL(ncclRecv(received.data(), 1, ncclInt32, previous, clique[r], nullptr));
    }
    for (int i = 0; i < kMessages; ++i) {
      int* const to = &received[static_cast<size_t>(i)];
      ASSERT_NCCL(ncclSend(&sent[static_cast<size_t>(i)], 1, ncclInt32, next, clique[r], nullptr));
      ASSERT_NCCL(ncclRecv(to, 1, ncclInt32, previous, clique[r], nullptr));
    }
    ASSERT_NCCL(ncclGroupEnd());
    for (int i = 0; i < kMessages; ++i) {
      ASSERT_EQ(received[static_cast<size_t>(i)], kMessages * previous + i);
    }
  });
}

}  // namespace
}  // namespace hostnccl_test
