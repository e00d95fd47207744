// How far a communicator is NCCL is asked by one thread at a time: also while its ranks compare
// settings in the background, or call, and the program asks on and on (fake/single_poll_nccl.cc).
// Under TERSE_SCHEME="name=grad* -> int4".
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <latch>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "named.h"

namespace terse::test {
namespace {

TEST(AsyncError, IsReadByOneThreadAtATime) {
  for (int attempt = 0; attempt < 5; ++attempt)
    on_threads(2, [](int rank, const ncclUniqueId& id) {
      const ncclComm_t comm = made_with(named("grad", false), rank, 2, id);
      expect_compressed(true, comm, "grad");
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
}

// As a program's watchdog asks, beside the thread that calls.
void watch(const std::stop_token& stop, ncclComm_t comm) {
  while (!stop.stop_requested()) {
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_TRUE(state == ncclSuccess || state == ncclInProgress) << state;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(AsyncError, IsReadByOneThreadAtATimeBesideCalls) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_with(named("grad", false), rank, 2, id);
    {
      const std::jthread watchdog(watch, comm);
      for (int call = 0; call < 5; ++call) expect_compressed(true, comm, "grad");
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  return state;
}

ncclResult_t sum(std::vector<float>& x, ncclComm_t comm) {
  return ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, comm, nullptr);
}

// NCCL ends what is under way before its ncclCommRevoke has come back.
TEST(AsyncError, HidesWhatARevocationCauses) {
  void* const nccl = dlopen(std::getenv("TERSE_NCCL"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(nccl, nullptr) << dlerror();
  const auto function = [&](const char* name) {
    return reinterpret_cast<void (*)(ncclComm_t)>(dlsym(nccl, name));
  };
  const auto wait_until_revoked = function("wait_until_revoked");
  const auto let_revoke_return = function("let_revoke_return");
  ASSERT_TRUE(wait_until_revoked != nullptr && let_revoke_return != nullptr);
  std::latch over(2);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_with(named("grad", true), rank, 2, id);
    expect_compressed(true, comm, "grad");
    auto revoked = std::async(std::launch::async,
                              [comm] { return ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT); });
    wait_until_revoked(comm);
    std::vector<float> x(50'000, 1.0f);
    EXPECT_EQ(sum(x, comm), ncclInvalidUsage);
    EXPECT_EQ(state_of(comm), ncclSuccess);
    let_revoke_return(comm);
    EXPECT_EQ(revoked.get(), ncclSuccess);
    EXPECT_EQ(sum(x, comm), ncclInvalidUsage);
    EXPECT_EQ(state_of(comm), ncclSuccess);
    over.arrive_and_wait();
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// What NCCL has failed with the program hears all the same, once nothing else asks.
TEST(AsyncError, ReportsAFailure) {
  setenv("HOSTNCCL_TIMEOUT", "0.2", 1);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = named("grad", false);
  ncclComm_t comm = nullptr;
  const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, 0, &config);  // and no other rank
  EXPECT_EQ(settled(made, comm), ncclSystemError);
  EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("did not arrive"), std::string::npos)
      << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  unsetenv("HOSTNCCL_TIMEOUT");
}

}  // namespace
}  // namespace terse::test
