// What the preload library has of a device's memory, at its communicators' end.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>

#include "clients.h"
#include "device.h"
#include "fake.h"

namespace terse::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kCount = 50'000;

size_t frees_at_destroy() {
  void* const nccl = dlopen(std::getenv("TERSE_NCCL"), RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<size_t (*)()>(dlsym(nccl, "nccl_gpu_frees_at_destroy"))();
}

// NCCL may have registered it with other processes.
TEST(Release, GivesMemoryBackOnceNcclHasLetGoOfIt) {
  const size_t before = fake::live().allocations;
  std::barrier<> together(kRanks);
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    must(cudaSetDevice(rank));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    const ncclComm_t comm = made_with(config, rank, kRanks, id);
    const DeviceMemory data(kCount * sizeof(float));
    const DeviceStream stream;
    ASSERT_EQ(
        ncclAllReduce(data.get(), data.get(), kCount, ncclFloat32, ncclSum, comm, stream.get()),
        ncclSuccess);
    stream.synchronize();
    EXPECT_GT(fake::live().allocations, before + kRanks) << "nothing was compressed";
    together.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    }
    together.arrive_and_wait();
    if (rank == 1) {
      const size_t frees = fake::calls()["cudaFree"];
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
      EXPECT_EQ(frees_at_destroy(), frees);
      EXPECT_GT(fake::calls()["cudaFree"], frees);
    }
    together.arrive_and_wait();
  });
  EXPECT_EQ(fake::live().allocations, before);
}

}  // namespace
}  // namespace terse::test
