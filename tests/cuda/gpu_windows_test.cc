// Fused calls of GPUs: one kernel for a call, in windows that ranks open to each other; and what
// becomes of a kernel that waits for a rank which does not come.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <list>
#include <thread>

#include "base/error.h"
#include "device.h"
#include "fake.h"
#include "own_settings.h"
#include "ranks.h"
#include "reference.h"

namespace terse::test {
namespace {

constexpr size_t kCount = 5'000;
constexpr size_t kRoom = size_t{1} << 20;

// They are there as long as any communicator.
const Settings& fusing(size_t window_bytes = kRoom) {
  static std::list<Settings> all;
  Settings& settings = all.emplace_back(terse::settings());
  settings.fuse = Fuse::kOn;
  settings.window_bytes = window_bytes;
  return settings;
}

// A rank's AllReduce of ones, on a stream of its own.
class Sum {
 public:
  Sum(int rank, ncclComm_t comm, const Settings& settings = fusing(), size_t count = kCount)
      : comm_(comm), settings_(settings), sent_(count, 1.0f), received_(count, -1.0f) {
    must(cudaSetDevice(rank));
    stream_.emplace();
  }

  void enqueue() {
    const Call call{.scheme = parse_scheme("int8"), .count = sent_.size()};
    terse::submit(comm_, request_of(call, sent_.data(), received_.data(), stream_->get()),
                  call.scheme, settings_);
  }
  // Returns what a call fails with; empty: nothing.
  std::string error() {
    try {
      enqueue();
    } catch (const Error& e) {
      return e.message;
    }
    return {};
  }
  void synchronize() const { stream_->synchronize(); }
  bool is_untouched() const { return received_ == std::vector<float>(received_.size(), -1.0f); }
  void expect(float value) const {
    synchronize();
    EXPECT_EQ(received_, std::vector<float>(received_.size(), value));
  }
  void forget() { received_.assign(received_.size(), -1.0f); }
  const Settings& settings() const { return settings_; }
  cudaStream_t stream() const { return stream_->get(); }

 private:
  const ncclComm_t comm_;
  const Settings& settings_;
  std::vector<float> sent_, received_;
  std::optional<DeviceStream> stream_;
};

size_t launches(const char* function) { return fake::calls()[function]; }

TEST(GpuWindows, ACallIsOneKernel) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    Sum sum(rank, comm);
    sum.enqueue();
    EXPECT_EQ(launches("cudaLaunchKernelExC"), 2u);  // the windows' check, and the call
    sum.expect(3);
    const size_t before = launches("cudaLaunchKernel");
    sum.enqueue();
    sum.expect(3);
    EXPECT_EQ(launches("cudaLaunchKernelExC"), 3u);
    EXPECT_EQ(launches("cudaLaunchKernel"), before);
    release_communicator(comm, false);
  });
}

// Nobody waits for a rank whose communicator has gone.
TEST(GpuWindows, ARankThatHasLeftIsNamed) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    Sum sum(rank, comm);
    sum.enqueue();
    sum.expect(3);
    if (rank != 1) {
      sum.forget();
      sum.enqueue();
      sum.synchronize();
      EXPECT_TRUE(sum.is_untouched());
      EXPECT_NE(sum.error().find("has left, for which a call waited"), std::string::npos);
    }
    release_communicator(comm, true);
  });
}

TEST(GpuWindows, AnAbortEndsACallThatWaits) {
  std::barrier both(2);
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    Sum sum(rank, comm);
    sum.enqueue();
    sum.expect(2);
    if (rank == 0) {
      sum.forget();
      sum.enqueue();
      abort_communicator(comm);
      sum.synchronize();
      EXPECT_TRUE(sum.is_untouched());
    }
    both.arrive_and_wait();
    if (rank == 1) abort_communicator(comm);
  });
}

// No call is silently without its result.
TEST(GpuWindows, ARevokeThatIsTakenBackRefusesCallsIfOneHasWaited) {
  std::barrier both(2);
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    Sum sum(rank, comm);
    CommHealth& health = terse::communicator(comm, sum.settings())->health();
    health.revoke();
    health.restore();
    sum.enqueue();
    sum.expect(2);
    if (rank == 0) {
      sum.forget();
      sum.enqueue();
      health.revoke();
      sum.synchronize();
      EXPECT_TRUE(sum.is_untouched());
      health.restore();
      EXPECT_NE(sum.error().find("calls were given up"), std::string::npos);
    }
    both.arrive_and_wait();
    release_communicator(comm, true);
  });
}

// It would wait for ever: the peers' kernels wait in NCCL.
TEST(GpuWindows, ARankInACallInStepsIsAMismatch) {
  constexpr size_t kLarge = 1'000'000;
  const auto body = [&](int rank, ncclComm_t comm) {
    Sum small(rank, comm), large(rank, comm, small.settings(), kLarge);
    large.enqueue();
    small.enqueue();
    small.expect(2);
    large.expect(2);
    if (rank == 0) {
      small.forget();
      small.enqueue();
      small.synchronize();
      EXPECT_TRUE(small.is_untouched());
      const std::string error = small.error();
      EXPECT_NE(error.find("rank 1 at AllReduce of 1000000 float32, sum"), std::string::npos)
          << error;
      abort_communicator(comm);
      throw std::runtime_error("ends the other's call");
    }
    large.enqueue();
    EXPECT_ANY_THROW(large.synchronize());
    abort_communicator(comm);
  };
  EXPECT_THROW(run_ranks(2, body), std::runtime_error);
}

// Calls of other forms and sizes, whose kernels have other grids, laps and meetings.
TEST(GpuWindows, CallsThatDifferEndOnAllRanks) {
  const Call calls[] = {
      {.scheme = parse_scheme("int8:algo=oneshot"), .count = 700},
      {.scheme = parse_scheme("int8:algo=twoshot"), .count = 700},
      {.scheme = parse_scheme("int8:algo=twoshot"), .count = 40'000},
      {.collective = plan::Collective::kAllGather, .scheme = parse_scheme("int8"), .count = 3'000},
      {.collective = plan::Collective::kReduceScatter,
       .scheme = parse_scheme("int4"),
       .count = 900},
      {.scheme = parse_scheme("int8:block=4096,algo=twoshot"), .count = 40'000},
  };
  for (const Call& one : calls)
    for (const Call& other : calls) {
      if (&one >= &other) continue;
      const Settings& settings = fusing();
      run_ranks(3, [&](int rank, ncclComm_t comm) {
        must(cudaSetDevice(rank));
        const DeviceStream stream;
        const auto result = [&](const Call& call, bool must_differ) {
          const Bytes sent(send_count(call, 3) * sizeof(float), '\x11');
          Bytes received(recv_count(call, 3) * sizeof(float), '\x5a');
          terse::submit(comm, request_of(call, sent.data(), received.data(), stream.get()),
                        call.scheme, settings);
          stream.synchronize();
          if (must_differ)
            EXPECT_EQ(received, Bytes(received.size(), '\x5a')) << "on rank " << rank;
        };
        for (const Call& call : calls) result(call, false);  // all agree on them
        result(rank == 1 ? one : other, true);
        EXPECT_THROW(result(one, false), Error);
        release_communicator(comm, true);
      });
    }
}

// Kernels of more communicators, which wait for peers at the same time, might not find room.
TEST(GpuWindows, ADeviceHasThemForThreeCommunicators) {
  std::vector<std::atomic<size_t>> fused(5);
  const Settings& settings = fusing();
  const auto one_more = [&](const auto& self, size_t number) -> void {
    if (number == fused.size()) return;
    std::barrier both(2);
    run_ranks(2, [&](int rank, ncclComm_t comm) {
      Sum sum(rank, comm, settings);
      const size_t before = launches("cudaLaunchKernelExC");
      sum.enqueue();
      sum.expect(2);
      fused[number] += launches("cudaLaunchKernelExC") - before;
      both.arrive_and_wait();
      if (rank == 0) self(self, number + 1);  // while this one lives
      both.arrive_and_wait();
      release_communicator(comm, false);
    });
  };
  one_more(one_more, 0);
  for (size_t i = 0; i < fused.size(); ++i) EXPECT_EQ(fused[i], i < 3 ? 4u : 0u) << i;
}

// Windows that larger calls have replaced are there as long as a graph may use them.
TEST(GpuWindows, StayForGraphsThatUseThem) {
  const Settings& settings = fusing(size_t{16} << 20);
  std::barrier both(2);
  const auto another = [&](int rank, ncclComm_t comm) {  // takes what is free
    Sum sum(rank, comm, settings);
    sum.enqueue();
    sum.expect(2);
    release_communicator(comm, false);
  };
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    Sum small(rank, comm, settings), large(rank, comm, settings, 400 * kCount);
    small.enqueue();
    small.expect(2);
    {
      const RecordedGraph graph(small.stream(), [&] { small.enqueue(); });
      large.enqueue();
      large.expect(2);
      both.arrive_and_wait();
      if (rank == 0) run_ranks(2, another);
      both.arrive_and_wait();
      for (int replay = 0; replay < 3; ++replay) {
        small.forget();
        graph.launch(small.stream());
        small.expect(2);
        large.enqueue();
        large.expect(2);
      }
    }
    release_communicator(comm, false);
  });
}

TEST(GpuWindows, AreReusedByOneCommunicatorAfterAnother) {
  size_t after_some = 0;
  for (int i = 0; i < 60; ++i) {
    run_ranks(2, [&](int rank, ncclComm_t comm) {
      Sum sum(rank, comm);
      sum.enqueue();
      sum.expect(2);
      release_communicator(comm, false);
    });
    if (i == 9) after_some = fake::live().allocations;
  }
  EXPECT_LE(fake::live().allocations, after_some + 2);
}

// Their kernels might wait for each other's end.
TEST(GpuWindows, AreNotHadByRanksThatShareAGpuUnlessTheyMay) {
  setenv("FAKE_CUDA_ONE_GPU", "1", 1);
  for (const Fuse fuse : {Fuse::kOn, Fuse::kShared}) {
    Settings settings = fusing();
    settings.fuse = fuse;
    run_ranks(2, [&](int rank, ncclComm_t comm) {
      Sum sum(rank, comm, settings);
      sum.enqueue();
      sum.expect(2);
      EXPECT_EQ(launches("cudaLaunchKernelExC") != 0, fuse == Fuse::kShared);
      release_communicator(comm, true);
    });
  }
  unsetenv("FAKE_CUDA_ONE_GPU");
}

// All ranks do the call in steps, with the same result.
TEST(GpuWindows, AreHadByAllRanksOrByNone) {
  constexpr struct {
    const char* function;
    size_t count;
  } kFailures[] = {
      {"cudaDeviceCanAccessPeer", kCount}, {"cudaDeviceEnablePeerAccess", kCount},
      {"cudaDeviceGetPCIBusId", kCount},   {"cudaStreamCreateWithFlags", kCount},
      {"cudaMalloc", 1'600 * kCount},  // for which no windows before have kept memory
  };
  for (const auto& [function, count] : kFailures)
    run_ranks(3, [&, function = function, count = count](int rank, ncclComm_t comm) {
      Sum sum(rank, comm, fusing(size_t{64} << 20), count);
      if (rank == 1) fake::fail(function, cudaErrorNotPermitted, 1, 1'000);
      sum.enqueue();
      EXPECT_EQ(fake::failed(), rank == 1) << function;
      sum.expect(3);
      EXPECT_EQ(launches("cudaLaunchKernelExC"), 0u) << function;
      release_communicator(comm, true);
    });
}

}  // namespace
}  // namespace terse::test
