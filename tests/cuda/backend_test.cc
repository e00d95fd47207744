// The backend by itself.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>

#include "backend/cuda_module.h"
#include "fake.h"

namespace terse::test {
namespace {

Backend& backend() {
  static Backend* const made = [] {
    void* const module = dlopen(TERSE_CUDA_FAKE, RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) throw std::runtime_error(dlerror());
    return reinterpret_cast<MakeCudaBackend>(dlsym(module, kMakeCudaBackend))(kCudaModuleVersion,
                                                                              0);
  }();
  return *made;
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

}  // namespace
}  // namespace terse::test
