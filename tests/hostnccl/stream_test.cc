// Streams and events: order, and how collectives sit in it.
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "reference.h"
#include "streams.h"

namespace hostnccl_test {
namespace {

using namespace std::chrono_literals;

void increment(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

TEST(Streams, FunctionsRunInOrderOnOneThread) {
  struct Log {
    std::vector<int> order;
    std::vector<std::thread::id> threads;
  } log;
  struct Entry {
    Log* log;
    int number;
  };
  std::vector<Entry> entries;
  for (int i = 0; i < 100; ++i) entries.push_back({&log, i});
  {
    const Stream stream;
    for (Entry& entry : entries) {
      ASSERT_NCCL(hostncclLaunchHostFunc(
          stream,
          [](void* arg) {
            auto* e = static_cast<Entry*>(arg);
            e->log->order.push_back(e->number);
            e->log->threads.push_back(std::this_thread::get_id());
          },
          &entry));
    }
    ASSERT_NCCL(hostncclStreamSynchronize(stream));
    ASSERT_EQ(log.order.size(), 100u);
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(log.order[static_cast<size_t>(i)], i);
    EXPECT_EQ(log.threads[static_cast<size_t>(i)], log.threads[0]);
    EXPECT_NE(log.threads[static_cast<size_t>(i)], std::this_thread::get_id());
  }
}

// Were it woken for each, small calls would pay for switches between threads on busy processors.
TEST(Streams, SynchronizeSleepsWhileFunctionsFinish) {
  const auto sleeps = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
  };
  constexpr int kFunctions = 1000;
  std::atomic<int> count{0};
  const Stream stream;
  Gate gate(stream);
  for (int i = 0; i < kFunctions; ++i)
    ASSERT_NCCL(hostncclLaunchHostFunc(
        stream,
        [](void* counter) {
          increment(counter);
          std::this_thread::sleep_for(20us);
        },
        &count));
  gate.open();
  const auto before = sleeps();
  ASSERT_NCCL(hostncclStreamSynchronize(stream));
  EXPECT_EQ(count, kFunctions);
  EXPECT_LT(sleeps() - before, kFunctions / 10);
}

TEST(Streams, QueryTellsWhetherWorkIsLeft) {
  const Stream stream;
  EXPECT_EQ(ncclSuccess, hostncclStreamQuery(stream));
  Gate gate(stream);
  EXPECT_EQ(ncclInProgress, hostncclStreamQuery(stream));
  gate.open();
  ASSERT_NCCL(hostncclStreamSynchronize(stream));
  EXPECT_EQ(ncclSuccess, hostncclStreamQuery(stream));
}

TEST(Streams, DestroyWaitsForTheQueue) {
  std::atomic<int> count{0};
  {
    const Stream stream;
    for (int i = 0; i < 20; ++i) {
      ASSERT_NCCL(hostncclLaunchHostFunc(
          stream,
          [](void* arg) {
            std::this_thread::sleep_for(1ms);
            increment(arg);
          },
          &count));
    }
  }
  EXPECT_EQ(count, 20);
}

TEST(Streams, NullStreamRunsAtOnce) {
  std::atomic<int> count{0};
  ASSERT_NCCL(hostncclLaunchHostFunc(nullptr, &increment, &count));
  EXPECT_EQ(count, 1);
  EXPECT_NCCL(hostncclStreamSynchronize(nullptr));
  EXPECT_EQ(ncclSuccess, hostncclStreamQuery(nullptr));
}

TEST(Streams, EventHoldsAnotherStreamBack) {
  const Stream first, second;
  const Event event;
  std::atomic<int> count{0};
  Gate gate(first);
  ASSERT_NCCL(hostncclEventRecord(event, first));
  ASSERT_NCCL(hostncclStreamWaitEvent(second, event));
  ASSERT_NCCL(hostncclLaunchHostFunc(second, &increment, &count));
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(count, 0);
  gate.open();
  ASSERT_NCCL(hostncclStreamSynchronize(second));
  EXPECT_EQ(count, 1);
}

// As with CUDA: a wait means the record made before it, whatever is recorded later.
TEST(Streams, LaterRecordsDoNotMatter) {
  const Stream first, second;
  const Event event;
  ASSERT_NCCL(hostncclEventRecord(event, first));
  ASSERT_NCCL(hostncclStreamWaitEvent(second, event));
  Gate gate(first);
  ASSERT_NCCL(hostncclEventRecord(event, first));
  ASSERT_NCCL(hostncclStreamSynchronize(second));  // would hang on the second record
  gate.open();
  ASSERT_NCCL(hostncclEventSynchronize(event));
}

TEST(Streams, EventsKeepTheTimeAtWhichTheyWereComplete) {
  const Stream stream;
  const Event begin, end, never;
  double seconds = -1;
  EXPECT_EQ(ncclInvalidUsage, hostncclEventElapsedTime(&seconds, begin, end));
  Gate gate(stream);
  ASSERT_NCCL(hostncclEventRecord(begin, nullptr));
  ASSERT_NCCL(hostncclEventRecord(end, stream));
  EXPECT_EQ(ncclInProgress, hostncclEventElapsedTime(&seconds, begin, end));
  EXPECT_EQ(seconds, -1);
  std::this_thread::sleep_for(30ms);
  gate.open();
  ASSERT_NCCL(hostncclEventSynchronize(end));
  std::this_thread::sleep_for(30ms);
  ASSERT_NCCL(hostncclEventElapsedTime(&seconds, begin, end));
  EXPECT_GE(seconds, 0.030);
  double back = 0, same = -1;
  ASSERT_NCCL(hostncclEventElapsedTime(&back, end, begin));
  EXPECT_EQ(back, -seconds);
  ASSERT_NCCL(hostncclEventElapsedTime(&same, end, end));
  EXPECT_EQ(same, 0);
  EXPECT_EQ(ncclInvalidUsage, hostncclEventElapsedTime(&seconds, begin, never));
  EXPECT_EQ(ncclInvalidArgument, hostncclEventElapsedTime(nullptr, begin, end));
  EXPECT_EQ(ncclInvalidArgument, hostncclEventElapsedTime(&seconds, nullptr, end));
}

TEST(Streams, UnrecordedEventIsComplete) {
  const Stream stream;
  const Event event;
  EXPECT_NCCL(hostncclEventSynchronize(event));
  EXPECT_NCCL(hostncclStreamWaitEvent(stream, event));
  EXPECT_NCCL(hostncclStreamWaitEvent(nullptr, event));
  EXPECT_NCCL(hostncclEventRecord(event, nullptr));
  EXPECT_NCCL(hostncclEventSynchronize(event));
}

TEST(Streams, EventMayGoWhileWaitedFor) {
  const Stream first, second;
  Gate gate(first);
  {
    const Event event;
    ASSERT_NCCL(hostncclEventRecord(event, first));
    ASSERT_NCCL(hostncclStreamWaitEvent(second, event));
  }
  gate.open();
  ASSERT_NCCL(hostncclStreamSynchronize(second));
}

TEST(Streams, InvalidHandlesAreRecognised) {
  auto* bogus = reinterpret_cast<cudaStream_t>(0x1234560);
  EXPECT_EQ(ncclInvalidArgument, hostncclStreamSynchronize(bogus));
  EXPECT_EQ(ncclInvalidArgument, hostncclStreamDestroy(nullptr));
  EXPECT_EQ(ncclInvalidArgument, hostncclStreamCreate(nullptr));
  EXPECT_EQ(ncclInvalidArgument, hostncclEventRecord(nullptr, nullptr));
  EXPECT_EQ(ncclInvalidArgument, hostncclLaunchHostFunc(nullptr, nullptr, nullptr));
}

TEST(Streams, CollectiveReturnsBeforeItRuns) {
  const Clique clique(2);
  const Stream stream[2];
  int value[2] = {1, 2};
  Gate gate(stream[0]);
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&value[r], &value[r], 1, ncclInt32, ncclSum, comm, stream[r]);
  }));
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(ncclInProgress, hostncclStreamQuery(stream[1]));
  EXPECT_EQ(value[1], 2);
  gate.open();
  for (const Stream& s : stream) ASSERT_NCCL(hostncclStreamSynchronize(s));
  EXPECT_EQ(value[0], 3);
  EXPECT_EQ(value[1], 3);
}

// compute, collective, compute, collective ... each reading what the one before it wrote
TEST(Streams, CollectivesAndFunctionsAlternate) {
  const Clique clique(2);
  const Stream stream[2];
  int value[2] = {1, 1};
  const auto twice = [](void* arg) { *static_cast<int*>(arg) *= 3; };
  for (int round = 0; round < 8; ++round) {
    for (int r = 0; r < 2; ++r) ASSERT_NCCL(hostncclLaunchHostFunc(stream[r], twice, &value[r]));
    ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
      return ncclAllReduce(&value[r], &value[r], 1, ncclInt32, ncclSum, comm, stream[r]);
    }));
  }
  for (const Stream& s : stream) ASSERT_NCCL(hostncclStreamSynchronize(s));
  EXPECT_EQ(value[0], 1679616);  // 6^8
  EXPECT_EQ(value[1], 1679616);
}

// Two calls on two streams of one rank run in the order they were made.
TEST(Streams, OneCommunicatorKeepsLaunchOrderAcrossStreams) {
  const Clique clique(2);
  const Stream slow[2], fast[2];
  int a[2] = {1, 2}, b[2] = {10, 20};
  Gate gate(slow[0]);
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&a[r], &a[r], 1, ncclInt32, ncclSum, comm, slow[r]);
  }));
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(&b[r], &b[r], 1, ncclInt32, ncclSum, comm, fast[r]);
  }));
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(b[0], 10);
  gate.open();
  for (int r = 0; r < 2; ++r) ASSERT_NCCL(hostncclStreamSynchronize(fast[r]));
  EXPECT_EQ(a[0], 3);
  EXPECT_EQ(b[1], 30);
}

// A group over two streams joins both: each goes on only when the whole is done.
TEST(Streams, GroupJoinsItsStreams) {
  const Clique clique(1);
  const Stream first, second;
  int in[2] = {4, 5}, out[2] = {0, 0};
  Gate gate(first);
  ASSERT_NCCL(ncclGroupStart());
  ASSERT_NCCL(ncclAllReduce(&in[0], &out[0], 1, ncclInt32, ncclSum, clique[0], first));
  ASSERT_NCCL(ncclAllReduce(&in[1], &out[1], 1, ncclInt32, ncclSum, clique[0], second));
  ASSERT_NCCL(ncclGroupEnd());
  std::this_thread::sleep_for(10ms);
  EXPECT_EQ(ncclInProgress, hostncclStreamQuery(second));
  gate.open();
  ASSERT_NCCL(hostncclStreamSynchronize(second));
  EXPECT_EQ(out[0], 4);
  EXPECT_EQ(out[1], 5);
}

// The scalar is read when the operation runs, not when it is called.
TEST(Streams, DeviceScalarIsReadLate) {
  const Clique clique(1);
  const Stream stream;
  float value = 3, factor = 2;
  ncclRedOp_t op;
  ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarDevice, clique[0]));
  Gate gate(stream);
  ASSERT_NCCL(ncclAllReduce(&value, &value, 1, ncclFloat32, op, clique[0], stream));
  ASSERT_NCCL(ncclRedOpDestroy(op, clique[0]));
  factor = 5;
  gate.open();
  ASSERT_NCCL(hostncclStreamSynchronize(stream));
  EXPECT_EQ(value, 15);
}

}  // namespace
}  // namespace hostnccl_test
