// The process's first NCCL call, on one thread, while another one loads a library that gets at NCCL
// as it is loaded, and so with the loader's lock.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

namespace {

ncclResult_t make(ncclComm_t* comm, ncclUniqueId id = {}) {
  return ncclCommInitRank(comm, 1, id, 0);
}

TEST(Loading, ALibraryMayGetAtNcclWhileItIsLoaded) {
  const char* const makes = std::getenv("CONSTRUCTOR_MAKES");
  const std::string way = makes != nullptr ? makes : "";
  ncclComm_t comm = nullptr;
  if (way == "another") {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ASSERT_EQ(make(&comm, id), ncclSuccess);
  }
  int version = 0;
  if (way == "first") {
    ASSERT_EQ(ncclGetVersion(&version), ncclSuccess);  // NCCL is there, but no communicator yet
  }
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const ncclResult_t result = way == "first"     ? make(&comm)
                                : way == "another" ? ncclCommDestroy(comm)
                                                   : ncclSuccess;
    EXPECT_EQ(result, ncclSuccess);
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
