// Communicators with names, under a policy that compresses those of grad* by int4 and no others.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <string>
#include <vector>

#include "clients.h"
#include "reference.h"

namespace terse::test {

// By its name, and by what a sum on it gives.
inline void expect_compressed(bool compressed, ncclComm_t comm, const std::string& name) {
  int ranks = 0;
  ASSERT_EQ(ncclCommCount(comm, &ranks), ncclSuccess);
  const Bytes in = gaussian(50'000, ncclFloat32, 7);
  Bytes out(in.size());
  const ncclResult_t result =
      ncclAllReduce(in.data(), out.data(), 50'000, ncclFloat32, ncclSum, comm, nullptr);
  ASSERT_EQ(settled(result, comm), ncclSuccess) << ncclGetLastError(comm);
  const Call call{.count = 50'000};
  const auto truth = exact(call, std::vector<Bytes>(static_cast<size_t>(ranks), in))[0];
  const double error = relative_error(values(out, ncclFloat32), truth);
  if (compressed)
    EXPECT_GT(error, 0.05) << name;
  else
    EXPECT_LT(error, 1e-6) << name;
}

inline ncclConfig_t named(const char* name, bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  config.commName = name;
  return config;
}

}  // namespace terse::test
