// What the preload library tells of a communicator.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include "terse/terse.h"

namespace terse::test {

// Nodes that terse knows it to be on: 0 before its ranks have met, or where there is no such
// communicator any more.
inline size_t nodes_of(ncclComm_t comm) {
  const auto stats_of =
      reinterpret_cast<decltype(&tersePreloadStats)>(dlsym(RTLD_DEFAULT, "tersePreloadStats"));
  terseStats_t stats{};
  stats.size = sizeof stats;
  const ncclResult_t result = stats_of(comm, &stats);
  EXPECT_TRUE(result == ncclSuccess || result == ncclInvalidArgument) << result;
  return stats.nodes;
}

}  // namespace terse::test
