// Waiting for other ranks ends when NCCL has failed or the communicator is aborted, also where a
// GPU says nothing of it: there, what NCCL gives up ends as if it were done, or never.
#include "engine/peers/host_all_gather.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <thread>

#include "engine/call/pending_group.h"
#include "engine/call/route.h"
#include "engine/comm/directory.h"
#include "host_stream.h"
#include "idle.h"
#include "thrown_error.h"

namespace terse::test {
namespace {

using Clock = std::chrono::steady_clock;

class HostAllGatherTest : public testing::Test {
 protected:
  ~HostAllGatherTest() override {
    nccl_state = ncclSuccess;
    at_group_end = nullptr;
  }

  // What a meeting throws.
  std::string failure_of(Timeout patience, ncclResult_t wanted) {
    return failure_of(c, patience, wanted);
  }
  static std::string failure_of(IdleCommunicator& c, Timeout patience, ncclResult_t wanted) {
    HostAllGather exchange(c.state, 1);
    const char word = 0;
    exchange.post({&word, 1});
    HostAllGather* const all[] = {&exchange};
    try {
      run_all_gathers(all, patience);
    } catch (const Error& e) {
      EXPECT_EQ(e.result, wanted);
      return e.message;
    }
    return "nothing";
  }

  IdleCommunicator c{parse_scheme("int8")};
};

void expect_part(const std::string& text, const char* part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST_F(HostAllGatherTest, ReadsNoWordsThatNobodyHasWritten) {
  expect_part(failure_of(Timeout::kInit, ncclRemoteError), "nothing came from rank 0");
}

TEST_F(HostAllGatherTest, FailsWhereNcclHasFailed) {
  nccl_state = ncclRemoteError;
  for (const bool ends : {true, false}) {
    c.backend.ends = ends;
    for (const Timeout patience : {Timeout::kInit, Timeout::kLateRank})
      expect_part(failure_of(patience, ncclRemoteError), "rank 3 of 8");
  }
}

TEST_F(HostAllGatherTest, FailsAfterTheTimeout) {
  Settings short_of_time = settings();
  short_of_time.timeout_seconds = 1;
  IdleCommunicator usual(parse_scheme("int8"), short_of_time);
  usual.backend.ends = false;
  const std::string message = failure_of(usual, Timeout::kInit, ncclSystemError);
  expect_part(message, "rank 3 of 8");
  expect_part(message, "not every rank answered within 1 s (TERSE_TIMEOUT)");

  IdleCommunicator longer(parse_scheme("int8"), short_of_time);
  longer.backend.ends = false;
  testing::internal::CaptureStderr();
  expect_part(failure_of(longer, Timeout::kLateRank, ncclSystemError),
              "not every rank came to a call on which they decide together within 10 s (10 times "
              "TERSE_TIMEOUT)");
  expect_part(testing::internal::GetCapturedStderr(),
              "rank 3 of 8: still waits for all ranks to come to a call on which they decide "
              "together");
}

// NCCL itself waits for the ranks where it connects them.
TEST_F(HostAllGatherTest, WaitsForNcclsLaunchFirst) {
  Settings short_of_time = settings();
  short_of_time.timeout_seconds = 2;
  IdleCommunicator slow(parse_scheme("int8"), short_of_time);
  std::future<void> arrives;
  at_group_end = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    slow.backend.ends = false;
    arrives = std::async(std::launch::async, [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      slow.backend.ends = true;
    });
  };
  expect_part(failure_of(slow, Timeout::kInit, ncclRemoteError), "nothing came from rank 0");
}

TEST_F(HostAllGatherTest, ForWhatWasEnqueuedBeforeDifferencesEndsToo) {
  Settings short_of_time = settings();
  short_of_time.timeout_seconds = 1;
  const Scheme scheme = parse_scheme("int8:delta=shadow");
  IdleCommunicator other(scheme, short_of_time);
  other.backend.ends = false;
  const std::vector<float> shard(100'000);
  std::vector<float> all(8 * shard.size());
  const Request request{.collective = plan::Collective::kAllGather,
                        .send = shard.data(),
                        .recv = all.data(),
                        .count = shard.size(),
                        .stream = reinterpret_cast<Stream>(all.data())};
  try {
    submit(other.state, request, route(other.state, request, scheme));
    ADD_FAILURE() << "it did not wait";
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclSystemError);
    expect_part(e.message, "what was enqueued before an AllGather of differences was not done");
    expect_part(e.message, "within 10 s (10 times TERSE_TIMEOUT)");
  }
  EXPECT_EQ(other.state.health().failure(), ncclSystemError);
}

// What was recorded into a graph, or failed to be, no rank waits for; else nobody knows.
TEST_F(HostAllGatherTest, IsForNobodyWhereARankKnowsNothingOfItsStream) {
  const Error cause(ncclInternalError, "a cause");
  c.backend.recording_fails = ncclInvalidUsage;
  c.state.poison(nullptr, cause);
  EXPECT_EQ(c.state.health().failure(), std::nullopt);
  c.backend.recording_fails = ncclUnhandledCudaError;
  c.state.poison(nullptr, cause);
  EXPECT_EQ(c.state.health().failure(), ncclInternalError);
}

// Else a rank that has given up would be one call ahead of those that have not.
TEST_F(HostAllGatherTest, IsNotDoneAgainAfterItHasFailed) {
  failure_of(Timeout::kInit, ncclRemoteError);
  const size_t groups = groups_started;
  const std::string again = failure_of(Timeout::kInit, ncclRemoteError);
  EXPECT_EQ(groups_started, groups);
  EXPECT_EQ(again,
            "a new communicator, rank 3 of 8: its ranks may be at different calls since one has "
            "failed, and it is good for nothing but to be aborted: nothing came from rank 0");
  EXPECT_EQ(c.state.health().async_state(), ncclRemoteError);
  c.state.health().abort();
  expect_part(failure_of(Timeout::kInit, ncclInvalidUsage), "rank 3 of 8: aborted");
}

TEST_F(HostAllGatherTest, EndsWithAnAbort) {
  for (const bool ends : {true, false}) {
    IdleCommunicator other{parse_scheme("int8")};
    other.backend.ends = false;
    HostAllGather exchange(other.state, 1);
    std::thread aborts([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      other.state.health().abort();
      other.backend.ends = ends;
    });
    HostAllGather* const all[] = {&exchange};
    try {
      run_all_gathers(all, Timeout::kLateRank);
      ADD_FAILURE() << "it met";
    } catch (const Error& e) {
      EXPECT_EQ(e.result, ncclInvalidUsage);
      expect_part(e.message, "rank 3 of 8: aborted");
    }
    aborts.join();
  }
}

TEST_F(HostAllGatherTest, OfACommunicatorThatGoesEndsWhereNcclHasFailed) {
  c.state.memory().stream_sets().of(nullptr);
  EXPECT_TRUE(c.state.drains());
  c.backend.ends = false;
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    c.backend.ends = true;
  });
  EXPECT_TRUE(c.state.drains());
  ends.join();
  c.backend.ends = false;
  nccl_state = ncclRemoteError;
  const auto begin = Clock::now();
  EXPECT_FALSE(c.state.drains());
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30));
}

// Of one whose peer never comes, while it is made.
TEST(CommunicatorInit, EndsWithAnAbortFromAnotherThread) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);
  auto called = std::async(std::launch::async,
                           [&] { return error_of([&] { communicator(comm, settings()); }); });
  EXPECT_EQ(called.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  abort_communicator(comm);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  ASSERT_EQ(called.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  expect_part(called.get(), "a communicator was aborted at its first call");
  EXPECT_EQ(find_communicator(comm), nullptr);
}

// NCCL may be asked no more once the abort has begun, though it sees nothing wrong.
TEST(CommunicatorRelease, EndsWithAnAbortFromAnotherThread) {
  constexpr size_t kCount = 1 << 16;
  std::vector<float> data[2] = {std::vector<float>(kCount), std::vector<float>(kCount)};
  ncclComm_t comms[2];
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
  const HostStream streams[2];
  const auto sum = [&](int r) {
    submit(comms[r],
           {.collective = plan::Collective::kAllReduce,
            .send = data[r].data(),
            .recv = data[r].data(),
            .count = kCount,
            .stream = streams[r].get()},
           parse_scheme("int8"), settings());
  };
  group_start();
  for (const int r : {0, 1}) sum(r);
  group_end();
  sum(0);  // and no other rank
  const auto released =
      std::async(std::launch::async, [&] { release_communicator(comms[0], true); });
  EXPECT_EQ(released.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  abort_communicator(comms[0]);
  EXPECT_EQ(released.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  abort_communicator(comms[1]);
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  released.wait();
  reap_communicators();
}

}  // namespace
}  // namespace terse::test
