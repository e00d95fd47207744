// The backend by itself.
#include "backend/cuda/backend.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "fake.h"

namespace terse::test {
namespace {

TEST(Backend, AsksNothingOfTheRuntimeToReleaseNothing) {
  void* const module = dlopen(TERSE_CUDA_FAKE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const auto make = reinterpret_cast<MakeCudaBackend>(dlsym(module, kMakeCudaBackend));
  ASSERT_NE(make, nullptr);
  Backend* const backend = make(kCudaModuleVersion, 0);
  for (const char* function : {"cudaFree", "cudaFreeHost", "cudaThreadExchangeStreamCaptureMode"}) {
    fake::fail(function, cudaErrorInitializationError);
    backend->release(nullptr);
    backend->release_visible(nullptr);
    EXPECT_FALSE(fake::failed()) << function;
  }
}

}  // namespace
}  // namespace terse::test
