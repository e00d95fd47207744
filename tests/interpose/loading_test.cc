// The process's first NCCL call, on one thread, while another one loads a library that gets at NCCL
// as it is loaded, and so with the loader's lock.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <thread>

namespace {

TEST(Loading, ALibraryMayGetAtNcclWhileItIsLoaded) {
  int version = 0;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  });
  void* const library = dlopen(TERSE_CONSTRUCTING, RTLD_NOW);
  other.join();
  ASSERT_NE(library, nullptr) << dlerror();
  const auto constructed = static_cast<const int*>(dlsym(library, "constructed"));
  ASSERT_NE(constructed, nullptr);
  EXPECT_EQ(*constructed, 1);
  EXPECT_GT(version, 0);
}

}  // namespace
