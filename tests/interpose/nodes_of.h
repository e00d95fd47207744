// What the preload library tells of a communicator.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include "terse/terse.h"

namespace terse::test {

// Nodes that terse knows it to be on: 0 before its ranks have met, or where terse has nothing of
// it.
inline size_t nodes_of(ncclComm_t comm) {
  const auto stats_of =
      reinterpret_cast<decltype(&tersePreloadStats)>(dlsym(RTLD_DEFAULT, "tersePreloadStats"));
  terseStats_t stats{};
  stats.size = sizeof stats;
  EXPECT_EQ(stats_of(comm, &stats), ncclSuccess);
  return stats.nodes;
}

}  // namespace terse::test
