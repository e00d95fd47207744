// How clients make communicators with a configuration, and wait for those that do not block.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

// By which a program comes to NCCL past a preload library.
extern "C" {
extern decltype(ncclCommAbort) pncclCommAbort;
extern decltype(ncclCommInitRankConfig) pncclCommInitRankConfig;
extern decltype(ncclCommGetAsyncError) pncclCommGetAsyncError;
extern decltype(ncclCommRegister) pncclCommRegister;
}

namespace terse::test {

// What a call on a communicator that may not block has come to in the end.
inline ncclResult_t settled(ncclResult_t state, ncclComm_t comm) {
  while (state == ncclInProgress) {
    usleep(100);
    if (const ncclResult_t asked = ncclCommGetAsyncError(comm, &state); asked != ncclSuccess)
      return asked;
  }
  return state;
}

// Where NCCL writes a handle, which goes when the handle is known.
using Place = std::unique_ptr<ncclComm_t>;

// The handle that NCCL writes there some time after the call.
inline ncclComm_t seen(ncclComm_t& place) {
  ncclComm_t comm = nullptr;
  while (comm == nullptr) {
    usleep(100);
    comm = std::atomic_ref(place).load(std::memory_order_acquire);
  }
  return comm;
}

inline ncclConfig_t non_blocking(const char* name = nullptr) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = name;
  return config;
}

// Makes a rank's communicator with a configuration, and waits until it is there.
inline ncclComm_t made_with(const ncclConfig_t& config, int rank, int ranks,
                            const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  ncclConfig_t own = config;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, ranks, id, rank, &own);
  EXPECT_EQ(settled(result, comm), ncclSuccess);
  return comm;
}

// The same behind terse's back.
inline ncclComm_t made_unseen(int rank, int ranks, const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  ncclConfig_t config = non_blocking();
  ncclResult_t state = pncclCommInitRankConfig(&comm, ranks, id, rank, &config);
  while (state == ncclInProgress) usleep(100), pncclCommGetAsyncError(comm, &state);
  EXPECT_EQ(state, ncclSuccess);
  return comm;
}

// Runs body(rank, id) on a thread for each rank.
template <class Body>
void on_threads(int ranks, const Body& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { body(r, id); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace terse::test
