// The fake runtime refuses what CUDA refuses, and captures what CUDA captures.
#include "fake.h"

#include <gtest/gtest.h>

#include <thread>

#include "device.h"

namespace terse::test {
namespace {

fake::Traffic store(const void* parameter, uint32_t blocks, uint32_t) {
  **static_cast<uint32_t* const*>(parameter) += blocks;
  return {4, 4};
}

const void* kernel() {
  static const bool added = [] {
    fake::add_kernel(reinterpret_cast<const void*>(&store), {{sizeof(uint32_t*)}, store});
    return true;
  }();
  return added ? reinterpret_cast<const void*>(&store) : nullptr;
}

cudaError_t launch(uint32_t* number, dim3 grid, dim3 block, cudaStream_t stream) {
  void* arguments[] = {&number};
  return cudaLaunchKernel(kernel(), grid, block, arguments, 0, stream);
}

constexpr auto kLocal = cudaStreamCaptureModeThreadLocal;

TEST(FakeCuda, RefusesFreedHandles) {
  cudaStream_t stream;
  cudaEvent_t event;
  uint32_t number = 0;
  must(cudaStreamCreate(&stream));
  must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  must(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(launch(&number, 1, 1, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  const DeviceStream other;
  must(cudaEventDestroy(event));
  EXPECT_EQ(cudaEventRecord(event, other.get()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  must(cudaSetDevice(1));
  EXPECT_EQ(launch(&number, 1, 1, other.get()), cudaErrorInvalidResourceHandle) << "of device 0";
  EXPECT_EQ(cudaSetDevice(fake::kDevices), cudaErrorInvalidDevice);
  must(cudaSetDevice(0));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(FakeCuda, RefusesArgumentsThatCannotBe) {
  const DeviceStream stream;
  uint32_t number = 0;
  EXPECT_EQ(cudaMalloc(nullptr, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(&number), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(nullptr, &number, 4, cudaMemcpyDefault, stream.get()),
            cudaErrorInvalidValue);
  EXPECT_EQ(launch(&number, 0, 1, stream.get()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(&number, 0x80000000u, 1, stream.get()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(&number, 1, 1025, stream.get()), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaLaunchKernel(kernel(), 1, 1, nullptr, 0, stream.get()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaLaunchKernel(&number, 1, 1, nullptr, 0, stream.get()),
            cudaErrorInvalidDeviceFunction);
  must(launch(&number, 0x7fffffff, 1024, stream.get()));
  stream.synchronize();
  EXPECT_EQ(number, 0x7fffffffu);
}

TEST(FakeCuda, CountsWhatAThreadEnqueues) {
  const DeviceStream one, two, three;
  const DeviceEvent event, recorded;
  const DeviceMemory from(64), to(64);
  uint32_t number = 0;
  fake::forget_streams();
  const fake::Traffic before = fake::traffic();
  auto calls = fake::calls();
  must(launch(&number, 1, 1, one.get()));
  must(cudaMemcpyAsync(to.get(), from.get(), 3, cudaMemcpyDefault, one.get()));
  must(cudaMemcpy2DAsync(to.get(), 8, from.get(), 8, 5, 2, cudaMemcpyDefault, one.get()));
  must(cudaStreamWaitEvent(two.get(), event.get(), 0));
  const RecordedGraph graph(three.get(),
                            [&] { must(cudaEventRecord(recorded.get(), three.get())); });
  std::thread([&] {
    must(launch(&number, 1, 1, two.get()));
    two.synchronize();
    EXPECT_EQ(fake::streams(), std::set{two.get()});
    EXPECT_EQ(fake::traffic(), (fake::Traffic{4, 4}));
    EXPECT_EQ(fake::calls()["cudaLaunchKernel"], 1u);
  }).join();
  one.synchronize();
  EXPECT_EQ(fake::streams(), (std::set{one.get(), two.get(), three.get()}));
  EXPECT_EQ(fake::traffic(), (fake::Traffic{before.read + 17, before.written + 17}));
  EXPECT_EQ(fake::calls()["cudaLaunchKernel"] - calls["cudaLaunchKernel"], 1u);
}

// As CUDA promises: "returns only once the copy has completed". Who has an error next may free it.
TEST(FakeCuda, HasCopiedToPageableMemoryWhenTheCallReturns) {
  const DeviceStream stream;
  DeviceMemory from(16 << 20);
  const DeviceMemory to(16 << 20);
  from.upload(std::vector<char>(16 << 20, 'a'), stream.get());
  for (int k = 0; k < 20; ++k)
    must(cudaMemcpyAsync(to.get(), from.get(), 16 << 20, cudaMemcpyDefault, stream.get()));
  char last = 0;
  must(cudaMemcpyAsync(&last, static_cast<char*>(to.get()) + (16 << 20) - 1, 1,
                       cudaMemcpyDeviceToHost, stream.get()));
  EXPECT_EQ(last, 'a');
  stream.synchronize();
}

TEST(FakeCuda, TimesOnlyEventsThatWereMadeForIt) {
  const DeviceStream stream;
  cudaEvent_t begin, end;
  must(cudaEventCreateWithFlags(&begin, cudaEventDefault));
  must(cudaEventCreateWithFlags(&end, cudaEventDefault));
  const DeviceEvent untimed;
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
  must(cudaEventQuery(begin));  // nothing was recorded: all of that is over
  must(cudaEventRecord(begin, stream.get()));
  must(cudaEventRecord(end, stream.get()));
  must(cudaEventRecord(untimed.get(), stream.get()));
  stream.synchronize();
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady) << "nobody asked";
  for (const cudaEvent_t event : {begin, end, untimed.get()}) must(cudaEventQuery(event));
  must(cudaEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, untimed.get()),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(nullptr, begin, end), cudaErrorInvalidValue);
  must(cudaEventDestroy(begin));
  must(cudaEventDestroy(end));
}

TEST(FakeCuda, CapturesForksAndJoins) {
  const DeviceStream one, two;
  const DeviceEvent fork, join;
  uint32_t a = 0, b = 0;
  {
    const RecordedGraph graph(one.get(), [&] {
      must(cudaEventRecord(fork.get(), one.get()));
      must(cudaStreamWaitEvent(two.get(), fork.get(), 0));
      must(launch(&a, 1, 1, one.get()));
      must(launch(&b, 2, 1, two.get()));
      EXPECT_NE(fake::capture_of(two.get()), 0u);
      must(cudaEventRecord(join.get(), two.get()));
      must(cudaStreamWaitEvent(one.get(), join.get(), 0));
    });
    EXPECT_EQ(a + b, 0u) << "captured, not run";
    EXPECT_EQ(fake::capture_of(two.get()), 0u);
    for (int k = 0; k < 3; ++k) graph.launch(two.get());
    two.synchronize();
    EXPECT_EQ(a, 3u);
    EXPECT_EQ(b, 6u);
    EXPECT_EQ(cudaStreamWaitEvent(two.get(), join.get(), 0), cudaErrorCapturedEvent);
  }
  EXPECT_EQ(fake::live().graphs, 0u);
}

// Begins a capture, lets `wrong` do its part, and ends it.
template <class Wrong>
cudaError_t end_of(const DeviceStream& stream, const Wrong& wrong,
                   cudaStreamCaptureMode mode = kLocal) {
  must(cudaStreamBeginCapture(stream.get(), mode));
  wrong();
  cudaGraph_t graph = nullptr;
  const cudaError_t result = cudaStreamEndCapture(stream.get(), &graph);
  if (graph != nullptr) must(cudaGraphDestroy(graph));
  return result;
}

TEST(FakeCuda, RefusesCapturesThatLeaveTheirBounds) {
  const DeviceStream one, two;
  const DeviceEvent event, other;
  void* memory = nullptr;
  EXPECT_EQ(end_of(one,
                   [&] {
                     must(cudaEventRecord(event.get(), one.get()));
                     must(cudaStreamWaitEvent(two.get(), event.get(), 0));
                   }),
            cudaErrorStreamCaptureUnjoined);
  must(cudaEventRecord(event.get(), two.get()));
  EXPECT_EQ(end_of(one,
                   [&] {
                     EXPECT_EQ(cudaStreamWaitEvent(one.get(), event.get(), 0),
                               cudaErrorStreamCaptureIsolation);
                   }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(
      end_of(one,
             [&] { EXPECT_EQ(cudaStreamQuery(one.get()), cudaErrorStreamCaptureUnsupported); }),
      cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end_of(one,
                   [&] {
                     must(cudaEventRecord(event.get(), one.get()));
                     EXPECT_EQ(end_of(two,
                                      [&] {
                                        EXPECT_EQ(cudaStreamWaitEvent(two.get(), event.get(), 0),
                                                  cudaErrorStreamCaptureMerge);
                                      }),
                               cudaErrorStreamCaptureInvalidated);
                   }),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(
      end_of(one, [&] { EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorStreamCaptureUnsupported); }),
      cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end_of(one,
                   [&] {
                     cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
                     must(cudaThreadExchangeStreamCaptureMode(&mode));
                     must(cudaMalloc(&memory, 1));
                     must(cudaFree(memory));
                     must(cudaThreadExchangeStreamCaptureMode(&mode));
                     EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
                   }),
            cudaSuccess);
  EXPECT_EQ(end_of(
                one,
                [&] {
                  std::thread([&] {
                    EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorStreamCaptureUnsupported);
                  }).join();
                },
                cudaStreamCaptureModeGlobal),
            cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end_of(one,
                   [&] {
                     std::thread([&] {
                       must(cudaMalloc(&memory, 1));
                       must(cudaFree(memory));
                       cudaGraph_t graph;
                       EXPECT_EQ(cudaStreamEndCapture(one.get(), &graph),
                                 cudaErrorStreamCaptureWrongThread);
                     }).join();
                   }),
            cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, kLocal), cudaErrorStreamCaptureUnsupported);
}

TEST(FakeCuda, KeepsUserObjectsAsLongAsAGraphCanRun) {
  const DeviceStream stream;
  bool gone = false;
  const auto destroy = [](void* flag) { *static_cast<bool*>(flag) = true; };
  {
    const RecordedGraph graph(stream.get(), [&] {
      cudaStreamCaptureStatus status;
      cudaGraph_t captured = nullptr;
#if CUDART_VERSION >= 13000
      must(cudaStreamGetCaptureInfo(stream.get(), &status, nullptr, &captured, nullptr, nullptr,
                                    nullptr));
#else
      must(cudaStreamGetCaptureInfo_v2(stream.get(), &status, nullptr, &captured, nullptr,
                                       nullptr));
#endif
      cudaUserObject_t object = nullptr;
      must(cudaUserObjectCreate(&object, &gone, destroy, 1, cudaUserObjectNoDestructorSync));
      must(cudaGraphRetainUserObject(captured, object, 1, cudaGraphUserObjectMove));
    });
    graph.launch(stream.get());
    stream.synchronize();
    EXPECT_FALSE(gone);
  }
  EXPECT_TRUE(gone);
  EXPECT_EQ(fake::live().user_objects, 0u);
}

TEST(FakeCuda, FindsWritesOutOfBounds) {
  char* memory = nullptr;
  must(cudaMalloc(reinterpret_cast<void**>(&memory), 100));
  EXPECT_EQ(static_cast<unsigned char>(memory[99]), 0xa5) << "not zeros";
  memory[100] = 1;
  EXPECT_DEATH(cudaFree(memory), "written beside an allocation of 100 bytes");
  memory[100] = 0x5c;
  must(cudaFree(memory));
}

}  // namespace
}  // namespace terse::test
