// Whatever call of the CUDA runtime fails: the caller gets a named error, nobody hangs, nothing is
// left behind, and the next call works, or is refused for the same reason.
#include <atomic>
#include <barrier>
#include <string_view>

#include "client_stats.h"
#include "player.h"
#include "policy/settings.h"

namespace terse::test {
namespace {

using plan::Collective;

// The backend's calls, and a way for each to fail.
constexpr struct {
  const char* function;
  cudaError_t error;
} kFailures[] = {
    {"cuCtxGetCurrent", cudaErrorInsufficientDriver},
    {"cuCtxPushCurrent", cudaErrorDeviceUninitialized},
    {"cudaDeviceGetAttribute", cudaErrorInvalidDevice},
    {"cudaMalloc", cudaErrorMemoryAllocation},
    {"cudaMemcpyAsync", cudaErrorInvalidValue},
    {"cudaStreamGetPriority", cudaErrorInvalidResourceHandle},
    {"cudaStreamCreateWithPriority", cudaErrorMemoryAllocation},
    {"cudaStreamSynchronize", cudaErrorLaunchFailure},
    {"cudaStreamQuery", cudaErrorLaunchFailure},
    {"cudaStreamGetCaptureInfo", cudaErrorInvalidValue},
    {"cudaStreamWaitEvent", cudaErrorInvalidResourceHandle},
    {"cudaEventCreate", cudaErrorMemoryAllocation},
    {"cudaEventCreateWithFlags", cudaErrorMemoryAllocation},
    {"cudaEventRecord", cudaErrorInvalidResourceHandle},
    {"cudaHostAlloc", cudaErrorMemoryAllocation},
    {"cudaLaunchKernel", cudaErrorLaunchFailure},
    {"cudaUserObjectCreate", cudaErrorMemoryAllocation},
    {"cudaGraphRetainUserObject", cudaErrorInvalidValue},
};

// `refused`: a call that came after it.
void expect_message(const Player& player, const char* function, cudaError_t error,
                    bool refused = false) {
  const std::string message = terseGetLastError();
  const std::string rank =
      "rank " + std::to_string(player.rank) + " of " + std::to_string(player.ranks);
  for (const std::string& part :
       {std::string("terseAllReduce: "), std::string("communicator"), rank, std::string(function),
        std::string(cudaGetErrorName(error))})
    EXPECT_EQ(message.find(part) == std::string::npos, false) << part << " in: " << message;
  EXPECT_EQ(message.find("good for nothing but to be aborted") != std::string::npos, refused)
      << message;
  EXPECT_EQ(message.find("communicator"), message.rfind("communicator")) << message;
}

constexpr const char* kScheme = "int8:round=stochastic";

Call call_of(size_t count, Collective collective = Collective::kAllReduce) {
  return {.collective = collective, .scheme = parse_scheme(kScheme), .count = count};
}

// One that draws nothing: where a first call fails, the communicator may have no number yet.
Call first_call() {
  Call call = call_of(700);
  call.scheme = parse_scheme("int8:block=128,round=nearest");
  return call;
}

// How often it is called depends on the time that something takes, which differs between ranks.
bool polled(std::string_view function) {
  return function == "cudaStreamQuery" || function == "cuCtxPushCurrent";
}

// The next call. False: it is refused, as the ranks may be at different ones.
bool works(Player& player, const Call& call, const char* function, cudaError_t error) {
  const DeviceStream stream;
  Piece next(player, call);
  next.feed(1, stream.get());
  const ncclResult_t result = next.try_enqueue(stream.get());
  if (result == ncclSuccess) {
    next.expect(stream.get());
    return true;
  }
  EXPECT_EQ(result, ncclUnhandledCudaError);
  expect_message(player, function, error, true);
  next.expect_untouched(stream.get());
  return false;
}

// Fails the n-th call of each function, on all ranks alike, for every n that there is. An attempt
// arms that, makes its call, checks the result, and goes on to the next call before its memory is
// freed, for that waits for what all ranks have enqueued. How many of those were refused.
using Attempt = std::function<void(Player& player, const std::function<void()>& arm,
                                   const std::function<void(ncclResult_t)>& check,
                                   const std::function<void()>& go_on)>;
size_t sweep(const Call& next, const Attempt& attempt) {
  size_t errors = 0, refused = 0;
  for (const auto& [function, error] : kFailures) {
    std::atomic<bool> more = true;
    for (int n = 1; more && !(n > 1 && polled(function)); ++n) {
      more = false;
      std::atomic<size_t> failed = 0, working = 0;
      play_ranks(2, [&, function = function, error = error](Player& player) {
        const auto arm = [&] { fake::fail(function, error, n); };
        const auto check = [&](ncclResult_t result) {
          if (fake::failed()) more = true;
          if (result == ncclSuccess) return;
          ++failed;
          EXPECT_EQ(result, ncclUnhandledCudaError);
          expect_message(player, function, error);
          EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
        };
        const auto go_on = [&] { working += works(player, next, function, error); };
        attempt(player, arm, check, go_on);
      });
      EXPECT_TRUE(failed == 0 || failed == 2) << failed;
      EXPECT_TRUE(working == 2 || (working == 0 && failed == 2)) << working << " of " << failed;
      errors += failed;
      refused += 2 - working;
      if (!testing::Test::HasFailure()) continue;
      ADD_FAILURE() << function << ", call " << n;
      return refused;
    }
  }
  EXPECT_GT(errors, 20u);
  EXPECT_LE(refused, errors);
  return refused;
}

TEST(Failures, OfFirstCalls) {
  const size_t refused = sweep(
      first_call(), [](Player& player, const auto& arm, const auto& check, const auto& go_on) {
        const DeviceStream stream;
        Piece piece(player, first_call());
        piece.feed(0, stream.get());
        stream.synchronize();
        must(cudaSetDevice(9));  // the program may be on any device
        arm();
        const ncclResult_t result = piece.try_enqueue(stream.get());
        check(result);
        if (result == ncclSuccess) piece.expect(stream.get());
        must(cudaSetDevice(player.rank));
        go_on();
      });
  EXPECT_GT(refused, 20u);
}

// More scratch is needed than before.
TEST(Failures, OfLaterCalls) {
  const size_t refused = sweep(
      call_of(700), [](Player& player, const auto& arm, const auto& check, const auto& go_on) {
        const DeviceStream stream;
        Piece small(player, call_of(700)), large(player, call_of(5000));
        small.play(0, stream.get());
        large.feed(0, stream.get());
        stream.synchronize();
        arm();
        const ncclResult_t result = large.try_enqueue(stream.get());
        check(result);
        if (result == ncclSuccess) large.expect(stream.get());
        go_on();
      });
  EXPECT_GT(refused, 20u);
}

TEST(Failures, OfRecordedCalls) {
  const size_t refused = sweep(
      call_of(700), [](Player& player, const auto& arm, const auto& check, const auto& go_on) {
        const DeviceStream stream;
        Piece piece(player, call_of(700));
        piece.play(0, stream.get());
        must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
        arm();
        check(piece.try_enqueue(stream.get()));
        cudaGraph_t graph = nullptr;
        if (cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess)
          must(cudaGraphDestroy(graph));
        cudaGetLastError();
        go_on();
        const RecordedGraph again(stream.get(), [&] { piece.enqueue(stream.get()); });
        // A failed recording's track serves the next: no more than two tracks and two streams on a
        // rank. What a track sends goes on one stream.
        constexpr size_t kOfTrack = static_cast<size_t>(plan::Lane::kCommunicate) + 1;
        static std::barrier together(2);
        together.arrive_and_wait();
        EXPECT_LE(fake::live().streams, 2 * (2 * kOfTrack + 2) + kept_memory());
        together.arrive_and_wait();
        for (unsigned k = 0; k < 2; ++k) {
          piece.feed(k, stream.get());
          again.launch(stream.get());
          piece.expect(stream.get(), k);
        }
      });
  EXPECT_EQ(refused, 0u);
}

// One rank has no memory for a larger call: all of them call NCCL instead, and try again later.
void check_memory_lacks(Collective collective, int poor_rank, int which_allocation) {
  SCOPED_TRACE(std::string(plan::name(collective)) + " without memory on rank " +
               std::to_string(poor_rank));
  play_ranks(3, [&](Player& player) {
    const DeviceStream stream;
    Piece small(player, call_of(700, collective)), large(player, call_of(20'000, collective));
    small.play(0, stream.get());
    large.feed(0, stream.get());
    stream.synchronize();
    // After the second time a call is left out before they try again.
    constexpr struct {
      bool fails, tries;
    } kCalls[] = {{true, true}, {true, true}, {true, false}, {false, true}};
    const bool poor = player.rank == poor_rank;
    for (const auto& call : kCalls) {
      // The first allocation, for scratch, lasts; the second one is asked for anew. Where there is
      // not twice as much as before, just enough is asked for.
      const bool first = &call == kCalls;
      if (call.fails && poor)
        fake::fail("cudaMalloc", cudaErrorMemoryAllocation, first ? which_allocation : 1, 2);
      large.play(0, stream.get());
      EXPECT_EQ(large.fell_back(), call.fails);
      EXPECT_EQ(fake::failed(), call.fails && call.tries && poor);
      small.play(1, stream.get());
      EXPECT_FALSE(small.fell_back());
    }
  });
}

TEST(Failures, OfMemoryOnOneRankAreNoErrorOnAny) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kBroadcast, Collective::kScatter})
    for (const int poor_rank : {0, 1}) check_memory_lacks(collective, poor_rank, 1);
}

// Calls of a group do without together, and not each in its turn.
TEST(Failures, OfMemoryOnOneRankLeaveOutAWholeGroup) {
  play_ranks(2, [](Player& player) {
    const DeviceStream stream;
    Piece small(player, call_of(700)), one(player, call_of(20'000)), other(player, call_of(20'000));
    small.play(0, stream.get());
    const auto fallbacks = [&] {
      return client_stats(player.comm).bypasses[TERSE_BYPASS_FALLBACK];
    };
    for (size_t group = 1; group <= 3; ++group) {  // the third one is left out
      if (player.rank == 1 && group < 3) fake::fail("cudaMalloc", cudaErrorMemoryAllocation, 1, 2);
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      for (Piece* const piece : {&one, &other}) {
        piece->feed(0, stream.get());
        piece->enqueue(stream.get());
      }
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
      EXPECT_EQ(fallbacks(), 2 * group);
      for (const Piece* const piece : {&one, &other}) piece->expect_exact(stream.get());
    }
  });
}

// What all ranks decide on together.
ncclResult_t exclude_some(const Player& player) {
  constexpr terseRange_t kRange{0, 10};
  return terseCommExclude(player.comm, 1'000'000, &kRange, 1);
}
ncclResult_t give_levels(const Player& player) {
  return terseCommSetLevels(player.comm, "[[levels]]\nat = [0, 0.25, 0.5, 1]\n");
}

// Once the ranks have agreed that takes no memory. One that fails leaves, so that no other waits.
TEST(Failures, OfMemoryAreNoneWhereRanksDecideTogether) {
  for (const char* function : {"cudaMalloc", "cudaStreamCreateWithPriority"})
    for (const auto& decide : {exclude_some, give_levels})
      play_ranks(2, [&](Player& player) {
        const DeviceStream stream;
        Piece piece(player, call_of(700));
        piece.play(0, stream.get());
        if (player.rank == 1) fake::fail(function, cudaErrorMemoryAllocation);
        if (decide(player) != ncclSuccess) throw std::runtime_error(terseGetLastError());
        EXPECT_FALSE(fake::failed()) << function;
        piece.play(1, stream.get());
      });
}

// A rank that cannot begin with it would meet, with its next call, what the others wait in.
TEST(Failures, OfWhatRanksDecideTogetherAreTheEndOfTheCommunicator) {
  constexpr struct {
    const char* function;
    cudaError_t error;
    bool anew;
  } kCases[] = {{"cudaMalloc", cudaErrorMemoryAllocation, true},
                {"cudaStreamCreateWithPriority", cudaErrorMemoryAllocation, true},
                {"cudaMemcpyAsync", cudaErrorInvalidValue, true},
                {"cudaMemcpyAsync", cudaErrorInvalidValue, false}};
  for (const auto& c : kCases)
    for (const auto& decide : {exclude_some, give_levels})
      play_ranks(2, [&](Player& player) {
        const DeviceStream stream;
        Piece before(player, first_call());
        if (!c.anew) before.play(0, stream.get());
        fake::fail(c.function, c.error);
        EXPECT_EQ(decide(player), ncclUnhandledCudaError) << c.function;
        EXPECT_TRUE(fake::failed()) << c.function;
        EXPECT_FALSE(works(player, first_call(), c.function, c.error));
      });
}

// More is asked for than is needed.
TEST(Failures, OfMoreMemoryThanIsNeededIsNone) {
  play_ranks(2, [](Player& player) {
    const DeviceStream stream;
    Piece small(player, call_of(14'000)), large(player, call_of(20'000));
    small.play(0, stream.get());
    fake::fail("cudaMalloc", cudaErrorMemoryAllocation);
    large.play(0, stream.get());
    EXPECT_TRUE(fake::failed());
    EXPECT_FALSE(large.fell_back());
  });
}

// The memory to verify with is the second that is asked for.
TEST(Failures, OfMemoryToVerifyAreNoErrorOnAny) {
  if (settings().verify == 0) GTEST_SKIP() << "TERSE_VERIFY is not set";
  for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast})
    check_memory_lacks(collective, 1, 2);
}

// What is only measured is no matter of the other ranks.
TEST(Failures, OfAMeasurementOnOneRankAreNoErrorOnAny) {
  for (const char* function : {"cudaEventCreate", "cudaHostAlloc"}) {
    if (settings().verify == 0 && function == std::string_view("cudaHostAlloc")) continue;
    play_ranks(3, [&](Player& player) {
      const DeviceStream stream;
      Piece piece(player, call_of(700));
      if (player.rank == 1) fake::fail(function, cudaErrorMemoryAllocation);
      piece.play(0, stream.get());
      EXPECT_EQ(fake::failed(), player.rank == 1) << function;
      piece.play(1, stream.get());
    });
  }
}

// From some call on nothing works any more on one rank, nor does what cleans up. That rank has a
// named error, and comes to the end; and so do the others when it has left. After how many calls
// there was such an error.
int lose_a_device(unsigned calls_before) {
  int losses = 0;
  bool lost = true;
  for (int n = 1; lost; n += 1 + n / 5) {
    SCOPED_TRACE("from call " + std::to_string(n) + " on");
    lost = false;
    const auto body = [&](int rank, ncclComm_t comm) {
      Player player(rank, 2, comm, 0);
      const DeviceStream stream;
      Piece piece(player, {.scheme = parse_scheme("int8"), .count = 700});
      for (unsigned k = 0; k < calls_before; ++k) piece.play(k, stream.get());
      if (rank == 0) fake::lose_device(n);
      ncclResult_t result = ncclSuccess;
      for (int k = 0; k < 2 && result == ncclSuccess; ++k) result = piece.try_enqueue(stream.get());
      if (rank == 0 && result != ncclSuccess) {
        lost = true;
        ++losses;
        EXPECT_EQ(result, ncclUnhandledCudaError);
        expect_message(player, "cuda", cudaErrorECCUncorrectable);
      }
      terseCommRelease(comm);
      throw std::runtime_error("leaves");
    };
    try {
      run_ranks(2, body);
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "leaves");
    }
  }
  return losses;
}

TEST(Failures, OfADeviceThatGoes) {
  for (const unsigned calls_before : {0u, 1u}) EXPECT_GT(lose_a_device(calls_before), 0);
}

// A group whose streams cannot meet is over: the next one has nothing of it.
TEST(Failures, OfAGroupsStreamsLeaveNothingForTheNext) {
  play_ranks(2, [](Player& player) {
    const DeviceStream first, second;
    Piece one(player, call_of(100)), other(player, call_of(100));
    for (Piece* const piece : {&one, &other}) piece->play(0, first.get());
    one.feed(1, first.get());
    other.feed(1, second.get());
    first.synchronize();
    second.synchronize();
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(one.try_enqueue(first.get()), ncclSuccess);
    EXPECT_EQ(other.try_enqueue(second.get()), ncclSuccess);
    fake::fail("cudaEventRecord", cudaErrorInvalidResourceHandle);
    EXPECT_EQ(terseGroupEnd(), ncclUnhandledCudaError);
    EXPECT_TRUE(fake::failed());
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    for (const Piece* const piece : {&one, &other}) piece->expect_untouched(first.get());
    EXPECT_EQ(one.try_enqueue(first.get()), ncclUnhandledCudaError);
    expect_message(player, "cudaEventRecord", cudaErrorInvalidResourceHandle, true);
  });
}

// Within a group, the end names the communicator.
TEST(Failures, OfGroupsNameTheCommunicator) {
  play_ranks(2, [](Player& player) {
    const DeviceStream stream;
    Piece piece(player, call_of(100));
    piece.play(0, stream.get());
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(piece.try_enqueue(stream.get()), ncclSuccess);
    fake::fail("cudaLaunchKernel", cudaErrorLaunchFailure);
    EXPECT_EQ(terseGroupEnd(), ncclUnhandledCudaError);
    EXPECT_TRUE(fake::failed());
    const std::string message = terseGetLastError();
    EXPECT_NE(message.find("rank " + std::to_string(player.rank) + " of 2"), std::string::npos)
        << message;
    stream.synchronize();  // what was enqueued before the failure uses the buffers
  });
}

}  // namespace
}  // namespace terse::test
