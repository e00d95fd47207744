// What terse's C interface says of a communicator.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include "terse/terse.h"

namespace terse::test {

inline terseStats_t client_stats(ncclComm_t comm) {
  terseStats_t stats{.size = sizeof stats};
  EXPECT_EQ(terseCommGetStats(comm, &stats), ncclSuccess) << terseGetLastError();
  return stats;
}

}  // namespace terse::test
