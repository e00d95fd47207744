// The backend by itself.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backend/cuda_module.h"
#include "codec/codebook.h"
#include "device.h"
#include "engine/observe/wall_clock.h"
#include "fake.h"
#include "thrown_error.h"

namespace terse::test {
namespace {

Backend& backend(int device = 0) {
  static const auto make = [] {
    void* const module = dlopen(TERSE_CUDA_FAKE, RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<MakeCudaBackend>(dlsym(module, kMakeCudaBackend));
  }();
  return *make(kCudaModuleVersion, device);
}

TEST(Backend, AsksNothingOfTheRuntimeToReleaseNothing) {
  for (const char* function : {"cudaFree", "cudaFreeHost", "cudaThreadExchangeStreamCaptureMode"}) {
    fake::fail(function, cudaErrorInitializationError);
    backend().release(nullptr);
    backend().release_visible(nullptr);
    EXPECT_FALSE(fake::failed()) << function;
  }
}

// cudaFree may wait for what never ends.
TEST(Backend, KeepsWhatIsReleasedForTheNext) {
  const size_t before = fake::live().allocations;
  const auto more = [&] { return fake::live().allocations - before; };
  void* const large = backend().allocate(1000);
  void* const small = backend().allocate(300);
  EXPECT_EQ(more(), 2u);
  fake::fail("cudaFree", cudaErrorLaunchFailure);
  backend().release(large);
  backend().release(small);
  EXPECT_FALSE(fake::failed());
  EXPECT_EQ(more(), 2u);
  EXPECT_EQ(backend().allocate(200), small);
  EXPECT_EQ(backend().allocate(501), large);
  EXPECT_EQ(more(), 2u);
  backend().release(large);
  backend().release(small);

  // Too small, and too large by far.
  void* const other = backend().allocate(1001);
  void* const tiny = backend().allocate(10);
  EXPECT_EQ(more(), 4u);
  backend().release(other);
  backend().trim();
  EXPECT_EQ(more(), 1u);
  std::memset(tiny, 1, 10);  // still there
  backend().release(tiny);
  backend().trim();
  EXPECT_EQ(more(), 0u);
}

TEST(Backend, StreamsHaveThePriorityOfTheCallers) {
  for (const int priority : {0, -3}) {
    cudaStream_t caller = nullptr;
    ASSERT_EQ(cudaStreamCreateWithPriority(&caller, cudaStreamNonBlocking, priority), cudaSuccess);
    const Stream made = backend().create_stream(caller);
    int found = 1;
    EXPECT_EQ(cudaStreamGetPriority(made, &found), cudaSuccess);
    EXPECT_EQ(found, priority);
    backend().destroy_stream(made);
    EXPECT_EQ(cudaStreamDestroy(caller), cudaSuccess);
  }
}

// The null stream must not be asked for its priority while another one is recorded.
TEST(Backend, AsksNothingOfTheNullStreamToMakeOne) {
  for (const cudaStream_t null : {cudaStream_t{}, cudaStreamLegacy}) {
    fake::fail("cudaStreamGetPriority", cudaErrorStreamCaptureImplicit);
    const Stream made = backend().create_stream(null);
    EXPECT_FALSE(fake::failed());
    int priority = 1;
    EXPECT_EQ(cudaStreamGetPriority(made, &priority), cudaSuccess);
    EXPECT_EQ(priority, 0);
    backend().destroy_stream(made);
  }
}

// Copies within kBytes, by offsets.
struct Part {
  size_t to, from, bytes;
};

constexpr size_t kBytes = 1000;

// That the backend copies them all, and nothing else.
void expect_copied(const std::vector<Part>& parts) {
  const DeviceStream stream;
  DeviceMemory from(kBytes), to(kBytes);
  std::vector<char> source(kBytes), target(kBytes, '\x11');
  for (size_t i = 0; i < kBytes; ++i) source[i] = static_cast<char>(i * i / 7);
  from.upload(source, stream.get());
  to.upload(target, stream.get());
  std::vector<Copy> works;
  for (const auto& [at, start, bytes] : parts) {
    works.push_back(
        {static_cast<char*>(to.get()) + at, static_cast<char*>(from.get()) + start, bytes});
    std::memcpy(target.data() + at, source.data() + start, bytes);
  }
  backend().copy(stream.get(), works);
  EXPECT_EQ(to.download(stream.get()), target);
}

// Some are rows; some lie the other way round, over one another, or one has other bytes.
TEST(Backend, CopiesWhateverLiesInRows) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200 && !testing::Test::HasFailure(); ++trial) {
    std::vector<Part> parts;
    for (size_t at = 0; at + 64 <= kBytes;) {
      const size_t bytes = 1 + random() % 8, pitch = bytes + random() % 8;
      const size_t source_pitch = random() % 12, from = random() % (kBytes / 2);
      const size_t rows = 1 + random() % 4;
      for (size_t i = 0; i < rows; ++i, at += pitch)
        parts.push_back({at, from + i * source_pitch, bytes - (bytes > 1 && random() % 8 == 0)});
    }
    if (random() % 4 == 0) std::ranges::reverse(parts);
    expect_copied(parts);
  }
}

TEST(Backend, CopiesRowsByOneCall) {
  std::vector<Part> parts;
  for (const size_t from : {0, 500})
    for (size_t i = 0; i < 10; ++i) parts.push_back({from + 20 * i, from + 30 * i, 12});
  fake::fail("cudaMemcpy2DAsync", cudaErrorInvalidValue, 3);
  expect_copied(parts);
  EXPECT_FALSE(fake::failed());
  fake::fail("cudaMemcpy2DAsync", cudaErrorInvalidValue, 2);
  EXPECT_ANY_THROW(expect_copied(parts));
  EXPECT_TRUE(fake::failed());
}

// Any two copies lie some way apart, and may be of different allocations.
TEST(Backend, CopiesTwoByTwoCalls) {
  const std::vector<Part> parts = {{0, 0, 12}, {20, 30, 12}, {40, 60, 12}};
  fake::fail("cudaMemcpy2DAsync", cudaErrorInvalidValue, 1);
  expect_copied({parts.begin(), parts.begin() + 2});
  EXPECT_FALSE(fake::failed());
  fake::fail("cudaMemcpy2DAsync", cudaErrorInvalidValue, 1);
  EXPECT_ANY_THROW(expect_copied(parts));
  EXPECT_TRUE(fake::failed());
}

// Freed memory of the host, too, makes CUDA wait for all that runs; kept, it serves again.
TEST(Backend, KeepsVisibleMemoryUntilItIsTrimmed) {
  fake::fail("cudaFreeHost", cudaErrorInvalidValue, 1);
  void* const memory = backend().allocate_visible(1000);
  backend().release_visible(memory);
  EXPECT_EQ(backend().allocate_visible(600), memory);
  backend().release_visible(memory);
  EXPECT_FALSE(fake::failed());
  fake::fail("cudaFreeHost", cudaErrorInvalidValue, 1);
  backend().trim();
  EXPECT_TRUE(fake::failed());
}

// As when one follows another while another stream of the program is recorded.
TEST(Backend, ComparesClocksWhileAStreamIsRecorded) {
  const DeviceStream stream;
  for (const cudaStreamCaptureMode mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    const fake::Live before = fake::live();
    must(cudaStreamBeginCapture(stream.get(), mode));
    {
      const WallClock clock(backend());
      EXPECT_EQ(backend().seconds(clock.origin(), clock.origin()), 0.0);
    }
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
    must(cudaGraphDestroy(graph));
    EXPECT_EQ(fake::live().events, before.events);
  }
}

// Nor does the thread: a context on device 0, where threads begin, would take the memory of the
// rank that has it.
TEST(Backend, UsesNoDeviceButItsOwn) {
  constexpr int kDevice = 5;
  fake::forget_contexts();
  std::thread([] {
    Backend& own = backend(kDevice);
    own.load();
    cudaStream_t callers = nullptr;
    ASSERT_EQ(cudaSetDevice(kDevice), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&callers), cudaSuccess);
    std::thread([&] {
      const Stream stream = own.create_stream(callers);
      void* const memory = own.allocate(100);
      void* const visible = own.allocate_visible(100);
      const Event event = own.create_event();
      const char text[] = "text";
      own.upload(stream, memory, text, sizeof text);
      own.record(event, stream);
      own.wait(callers, event);
      own.synchronize(stream);
      EXPECT_TRUE(own.idle(stream));
      EXPECT_EQ(own.recording(stream), 0u);
      own.release(memory);
      own.release_visible(visible);
      own.destroy_event(event);
      own.destroy_stream(stream);
      own.trim();
      int device = -1;
      EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
      EXPECT_EQ(device, 0) << "as it was";
    }).join();
    ASSERT_EQ(cudaStreamDestroy(callers), cudaSuccess);
  }).join();
  EXPECT_EQ(fake::contexts(), std::set<int>{kDevice});
}

// Whoever has broken it: it is no error of the runtime's.
TEST(Backend, KeepsNothingForACaptureThatWasBroken) {
  const DeviceStream stream;
  must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  EXPECT_NE(cudaStreamQuery(stream.get()), cudaSuccess);
  const auto in_use = std::make_shared<std::atomic<bool>>(true);
  EXPECT_EQ(error_of([&] { backend().release_with_graph(stream.get(), in_use); }),
            "the stream's capture was broken by an earlier call");
  EXPECT_EQ(in_use.use_count(), 1);
  cudaGraph_t graph = nullptr;
  EXPECT_NE(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  cudaGetLastError();
}

// As one that admits communicators: NCCL leaves it on the device on which it has found it.
TEST(Backend, KeepsAThreadThatCallsNcclOnItsDevice) {
  constexpr int kDevice = 6;
  fake::forget_contexts();
  std::thread([] {
    const OnMachine on(backend(kDevice));
    const fake::NcclsDevice nccls(kDevice);
  }).join();
  EXPECT_EQ(fake::contexts(), std::set<int>{kDevice});
}

// A program may be in one that it has made, on the same device; NCCL, and with it terse, is in the
// primary one.
TEST(Backend, UsesItsDevicesPrimaryContextWhicheverTheThreadIsIn) {
  const DeviceStream callers;
  backend().load();
  auto* const number = static_cast<uint64_t*>(backend().allocate(sizeof(uint64_t)));
  const uint64_t before = 6;
  uint64_t after = 0;
  {
    const fake::OtherContext other(0);
    const DeviceStream own;
    const DeviceEvent own_event;
    const Event event = backend().create_event();
    const Stream stream = backend().create_stream(callers.get());
    backend().upload(callers.get(), number, &before, sizeof before);
    backend().increment(callers.get(), number);
    backend().record(event, callers.get());
    backend().wait(stream, event);
    backend().record(event, stream);
    backend().download(stream, &after, number, sizeof after);
    backend().destroy_event(event);
    backend().destroy_stream(stream);
    EXPECT_EQ(cudaEventRecord(own_event.get(), own.get()), cudaSuccess) << "it still is in it";
  }
  EXPECT_EQ(after, before + 1);
  backend().release(number);
}

// Into memory that holds garbage before, twice: a stage begins anew.
TEST(Backend, LearnsWhatTheHostLearns) {
  using codec::Learning;
  using enum Learning::Stage;
  constexpr int kBits = 5;
  constexpr size_t kBytes = codec::codebook_bytes(kBits);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  backend().load();
  void* const state = backend().allocate(sizeof(codec::LearningState));
  void* const table = backend().allocate(kBytes);
  void* const memory = backend().allocate(100'000);
  const std::vector<char> garbage(sizeof(codec::LearningState), '\x5a');
  backend().upload(stream, state, garbage.data(), garbage.size());
  for (const size_t count : {20'000, 1, 0}) {
    std::vector<float> data(count);
    for (size_t i = 0; i < count; ++i) data[i] = std::sin(static_cast<float>(i * i));
    backend().upload(stream, memory, data.data(), count * sizeof(float));
    std::vector<char> found(kBytes, '\x11');
    backend().upload(stream, table, found.data(), kBytes);
    codec::LearningState own;
    std::vector<float> own_table(codec::codebook_floats(kBits));
    std::memcpy(own_table.data(), found.data(), kBytes);
    Learning work{kWidest,
                  codec::Dtype::kFloat32,
                  kBits,
                  codec::Rounding::kNearest,
                  128,
                  count,
                  memory,
                  static_cast<codec::LearningState*>(state),
                  static_cast<float*>(table)};
    Learning own_work = work;
    own_work.data = data.data();
    own_work.state = &own;
    own_work.table = own_table.data();
    for (const Learning::Stage stage : {kWidest, kHistogram, kFit}) {
      work.stage = own_work.stage = stage;
      backend().learn(stream, work);
      codec::learn(own_work);
    }
    codec::LearningState seen;
    backend().download(stream, &seen, state, sizeof seen);
    backend().download(stream, found.data(), table, kBytes);
    EXPECT_EQ(seen.widest, own.widest);
    EXPECT_EQ(std::memcmp(seen.bins, own.bins, sizeof own.bins), 0);
    EXPECT_EQ(std::memcmp(found.data(), own_table.data(), kBytes), 0);
  }
  for (void* const allocated : {state, table, memory}) backend().release(allocated);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

}  // namespace
}  // namespace terse::test
