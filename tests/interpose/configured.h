// What the tests of calls with a configuration share, under TERSE_MIN_BYTES=4K and
// TERSE_SCHEME="tag=7 -> int4; tag=8 -> off; (all eight collectives) -> int8".
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cmath>
#include <string>
#include <vector>

#include "configured_calls.h"
#include "ranks.h"
#include "terse/terse.h"

// By which a program comes to NCCL past a preload library.
extern "C" {
extern decltype(ncclAllReduce) pncclAllReduce;
}

namespace terse::test {

constexpr int kRanks = 2;
constexpr size_t kCount = 20'000;

using Values = std::vector<float>;

inline ncclCollConfig_t tagged(uint64_t tag) {
  ncclCollConfig_t c = call_config();
  c.userProfilerTag = tag;
  return c;
}

inline terseStats_t stats_of(ncclComm_t comm) {
  static const auto stats =
      reinterpret_cast<decltype(&tersePreloadStats)>(dlsym(RTLD_DEFAULT, "tersePreloadStats"));
  terseStats_t s{.size = sizeof s};
  EXPECT_EQ(stats(comm, &s), ncclSuccess);
  return s;
}

// Of what a rank sends, some for each rank.
inline Values input(int rank) {
  Values values(kRanks * kCount);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i) * 0.37f + static_cast<float>(rank));
  return values;
}

inline Values sum(int rank, ncclComm_t comm, const ncclCollConfig_t* config,
                  size_t count = kCount) {
  const Values in = input(rank);
  Values out(count);
  EXPECT_EQ(ncclAllReduceConfig(in.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr,
                                config),
            ncclSuccess)
      << ncclGetLastError(comm);
  return out;
}

inline Values native_sum(int rank, ncclComm_t comm, size_t count = kCount) {
  const Values in = input(rank);
  Values out(count);
  EXPECT_EQ(pncclAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr),
            ncclSuccess);
  return out;
}

// Nothing has come of it.
inline void expect_refused(int rank, ncclComm_t comm, const ncclCollConfig_t& config,
                           ncclResult_t result, ncclDataType_t datatype = ncclFloat32,
                           ncclRedOp_t op = ncclSum, size_t count = kCount) {
  const Values in = input(rank);
  Values out(kCount, -1);
  EXPECT_EQ(ncclAllReduceConfig(in.data(), out.data(), count, datatype, op, comm, nullptr, &config),
            result);
  EXPECT_EQ(out, Values(kCount, -1));
}

// The process's last error, whichever rank has had it.
inline void expect_said(const char* part) {
  const std::string text = ncclGetLastError(nullptr);
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace terse::test
