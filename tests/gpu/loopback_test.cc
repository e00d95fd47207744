// Fused calls on one GPU: each rank is a stream with kernels of its own, and all windows are in
// memory that all of them have. The links are the GPU's caches; the flags, the fences and the
// machine code are those of several GPUs.
//
// TERSE_LOOPBACK_SECONDS: how long random calls go on (60).
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory_resource>
#include <thread>
#include <vector>

#include "device_buffer.h"
#include "fused_ranks.h"
#include "graph.h"
#include "kernels/fused_kernels.h"
#include "kernels/launch.h"
#include "specs.h"
#include "support.h"

namespace terse::gpu {
namespace {

using codec::Dtype;
using codec::Random;
using codec::Spec;
using kernels::FusedBatch;
using kernels::FusedRank;
using kernels::FusedRun;
using kernels::Results;
using std::chrono::steady_clock;

constexpr int kMaxRanks = 8;
constexpr std::chrono::seconds kPatience{20};

// The formats that are compiled, of bf16.
std::vector<Spec> specs(size_t block) {
  std::vector<Spec> all = codec::every_spec(block);
  std::erase_if(all, [](const Spec& spec) {
    return spec.hadamard != 0 ||
           kernels::find_fused_kernel({.spec = spec, .raw = Dtype::kBfloat16}) == nullptr;
  });
  return all;
}

FusedRun some_run(Random& random) { return kernels::some_run(random, specs, {Dtype::kBfloat16}); }

// Memory that the host and the GPU have, for one run after another.
class Shared {
 public:
  Shared() { check(cudaMallocManaged(&memory_, kBytes), "cudaMallocManaged"); }
  ~Shared() { cudaFree(memory_); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  std::pmr::monotonic_buffer_resource all() const {
    return {memory_, kBytes, std::pmr::null_memory_resource()};
  }

 private:
  static constexpr size_t kBytes = size_t{256} << 20;
  void* memory_ = nullptr;
};

// Words of the host that kernels look at.
class Aborts {
 public:
  Aborts() {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, kMaxRanks * sizeof(uint32_t), cudaHostAllocPortable),
          "cudaHostAlloc");
    words_ = static_cast<volatile uint32_t*>(memory);
    set(0);
  }
  ~Aborts() { cudaFreeHost(const_cast<uint32_t*>(words_)); }
  Aborts(const Aborts&) = delete;
  Aborts& operator=(const Aborts&) = delete;

  void set(uint32_t value) {
    for (int rank = 0; rank < kMaxRanks; ++rank) words_[rank] = value;
  }
  const uint32_t* of(size_t rank) const { return const_cast<const uint32_t*>(words_ + rank); }

 private:
  volatile uint32_t* words_;
};

class Streams {
 public:
  Streams() {
    for (cudaStream_t& stream : streams_)
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~Streams() {
    for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t operator[](size_t rank) const { return streams_[rank]; }

  // Waits until all have ended. Returns false if they do not.
  bool wait() const {
    const auto end = steady_clock::now() + kPatience;
    for (cudaStream_t stream : streams_)
      for (cudaError_t result; (result = cudaStreamQuery(stream)) != cudaSuccess;) {
        if (result != cudaErrorNotReady) check(result, "the kernels");
        if (steady_clock::now() > end) return false;
        std::this_thread::yield();
      }
    return true;
  }

 private:
  cudaStream_t streams_[kMaxRanks];
};

void launch(const FusedBatch& fused, uint32_t blocks, cudaStream_t stream) {
  static const cuda::Device device(0);
  static const cuda::Launcher launcher(device);
  launcher.fuse(stream, fused, blocks);
}

class Loopback : public testing::Test {
 protected:
  // All ranks have room at once, and leave some.
  static uint32_t max_blocks() {
    int processors = 0;
    check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), "attribute");
    return std::clamp(static_cast<uint32_t>(processors) / kMaxRanks, 1u, 16u);
  }

  // The run's calls as kernels, each of a grid of its own.
  struct Calls {
    Calls(const FusedRun& run, std::pmr::memory_resource* memory, const Aborts& aborts,
          Random& random)
        : fusions(fusions_of(run)), windows(fusions, run.ranks, memory) {
      for (size_t number = 0; number < run.calls.size(); ++number) {
        blocks.push_back(static_cast<uint32_t>(1 + random.below(max_blocks())));
        std::deque<FusedRank>& all = ranks.emplace_back();
        for (int rank = 0; rank < run.ranks; ++rank)
          all.emplace_back(run, number, rank, fusions[number].by_rank[static_cast<size_t>(rank)],
                           windows, max_blocks() * kernels::kWarps,
                           aborts.of(static_cast<size_t>(rank)), memory);
      }
    }

    void launch_on(size_t rank, cudaStream_t stream) const {
      for (size_t number = 0; number < ranks.size(); ++number)
        launch(ranks[number][rank].batch(), blocks[number], stream);
    }

    Results finish() {
      Results results;
      for (std::deque<FusedRank>& all : ranks) {
        results.emplace_back();
        for (FusedRank& rank : all) results.back().push_back(rank.finish());
      }
      return results;
    }

    std::vector<plan::Fusion> fusions;
    kernels::Windows windows;
    std::vector<uint32_t> blocks;
    std::deque<std::deque<FusedRank>> ranks;  // by call
  };

  void launch_all(const FusedRun& run, const Calls& calls) const {
    for (size_t rank = 0; rank < static_cast<size_t>(run.ranks); ++rank)
      calls.launch_on(rank, streams_[rank]);
  }

  // Waits, and ends kernels that wait for ever.
  void expect_the_end() {
    if (streams_.wait()) return;
    aborts_.set(1);
    const bool ended = streams_.wait();
    aborts_.set(0);
    FAIL() << "the kernels waited for ever" << (ended ? "" : ", and do not end by an abort");
  }

  Shared shared_;
  Aborts aborts_;
  Streams streams_;
};

TEST_F(Loopback, AnAllReduceGivesThePlansBytes) {
  Random random(1);
  const Spec spec = codec::make_spec({codec::kSymmetric, codec::Rounding::kStochastic}, 8, 128);
  const FusedRun run{3,
                     {{plan::Collective::kAllReduce, "twoshot", spec, Dtype::kBfloat16, 100'000}}};
  std::pmr::monotonic_buffer_resource memory = shared_.all();
  Calls calls(run, &memory, aborts_, random);
  launch_all(run, calls);
  expect_the_end();
  EXPECT_EQ(calls.finish(), kernels::by_plans(run));
}

TEST_F(Loopback, RandomCallsGiveThePlansBytes) {
  const char* const seconds = std::getenv("TERSE_LOOPBACK_SECONDS");
  const auto end =
      steady_clock::now() + std::chrono::seconds(seconds != nullptr ? std::atoi(seconds) : 60);
  Random random(2);
  size_t calls_done = 0;
  while (steady_clock::now() < end) {
    const FusedRun run = some_run(random);
    SCOPED_TRACE(describe(run));
    std::pmr::monotonic_buffer_resource memory = shared_.all();
    Calls calls(run, &memory, aborts_, random);
    launch_all(run, calls);
    expect_the_end();
    ASSERT_EQ(calls.finish(), kernels::by_plans(run)) << calls_done << " calls were right";
    calls_done += run.calls.size();
  }
  RecordProperty("calls", std::to_string(calls_done));
}

// Flags and slots are counted on the device.
TEST_F(Loopback, GraphsReplayCalls) {
  Random random(3);
  for (int i = 0; i < 30; ++i) {
    FusedRun run = some_run(random);
    for (kernels::FusedCall& call : run.calls) call.in_place = false;  // inputs stay
    SCOPED_TRACE(describe(run));
    std::pmr::monotonic_buffer_resource memory = shared_.all();
    Calls calls(run, &memory, aborts_, random);
    std::deque<Graph> graphs;
    for (size_t rank = 0; rank < static_cast<size_t>(run.ranks); ++rank)
      graphs.emplace_back(streams_[rank], cudaStreamCaptureModeThreadLocal,
                          [&] { calls.launch_on(rank, streams_[rank]); });
    const Results expected = kernels::by_plans(run);
    for (int replay = 0; replay < 5; ++replay) {
      for (std::deque<FusedRank>& all : calls.ranks)
        for (FusedRank& rank : all) rank.clear_result();
      for (const Graph& graph : graphs) graph.launch();
      expect_the_end();
      ASSERT_EQ(calls.finish(), expected) << "replay " << replay;
    }
  }
}

// An element is as the call gives it, or as it was; and all kernels end.
TEST_F(Loopback, AnAbortEndsCalls) {
  Random random(4);
  for (int i = 0; i < 100; ++i) {
    const FusedRun run = some_run(random);
    SCOPED_TRACE(describe(run));
    const Results expected = kernels::by_plans(run);
    std::pmr::monotonic_buffer_resource memory = shared_.all();
    Calls calls(run, &memory, aborts_, random);
    // One rank is late for ever.
    for (size_t rank = 1; rank < static_cast<size_t>(run.ranks); ++rank)
      calls.launch_on(rank, streams_[rank]);
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(200)));
    aborts_.set(1);
    expect_the_end();
    aborts_.set(0);
    const Results found = calls.finish();
    ASSERT_EQ(find_torn(run, found, expected), "");
  }
}

}  // namespace
}  // namespace terse::gpu

int main(int argc, char** argv) {
  // Kernels wait for each other: none may be loaded while another runs, and each stream has a
  // queue.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  testing::InitGoogleTest(&argc, argv);
  if (terse::gpu::devices() == 0) {
    std::puts("not run: there is no GPU here");
    return 77;
  }
  return RUN_ALL_TESTS();
}
