// Differences of weights near a type's largest number: what is finite stays so on all ranks, also
// in the one call in which it jumps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "client_stats.h"
#include "normal.h"
#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using Floats = std::vector<float>;

constexpr int kRanks = 2;
constexpr size_t kCount = 4500;  // blocks of 2048, too
constexpr size_t kFew = 100;     // the first ones, which may change without being other weights

struct Type {
  ncclDataType_t datatype;
  float largest, least_extreme, largest_usual;
};
constexpr Type kTypes[] = {{ncclFloat32, 0x1.fffffep127f, 0x1p113f, 0x1.fffffep112f},
                           {ncclFloat16, 65504, 8192, 8188},
                           {ncclBfloat16, 0x1.fep127f, 0x1p113f, 0x1.fep112f}};

// One rank's gathers of a buffer.
class Gatherer {
 public:
  Gatherer(int rank, ncclComm_t comm, const Type& type, const char* scheme)
      : rank_(rank), comm_(comm), type_(type), scheme_(scheme) {
    recv_.resize(kRanks * shard());
  }

  // What this rank has of the other one's shard, where both send these.
  Floats gather(const Floats& weights) {
    char* const own = recv_.data() + rank_ * shard();
    std::ranges::copy(bytes_of(weights, type_.datatype), own);
    EXPECT_EQ(
        terseAllGather(own, recv_.data(), kCount, type_.datatype, scheme_.get(), comm_, nullptr),
        ncclSuccess)
        << terseGetLastError();
    const char* const other = recv_.data() + (1 - rank_) * shard();
    return floats_of(Bytes(other, other + shard()), type_.datatype);
  }

  terseStats_t stats() const { return client_stats(comm_); }

 private:
  size_t shard() const { return kCount * datatype_size(type_.datatype); }

  const int rank_;
  const ncclComm_t comm_;
  const Type& type_;
  const SchemeHandle scheme_;
  Bytes recv_;
};

class DeltaExtreme : public testing::TestWithParam<const char*> {
 protected:
  // By both ranks, with every type.
  template <class Body>
  void run(const Body& body) const {
    for (const Type& type : kTypes)
      run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
        SCOPED_TRACE(testing::Message() << GetParam() << " rank " << rank << " type "
                                        << static_cast<int>(type.datatype));
        Gatherer gatherer(rank, comm, type, GetParam());
        body(gatherer, type, rank);
        EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
      });
  }
};

TEST_P(DeltaExtreme, WhatJumpsFromEndToEndGoesInFull) {
  run([](Gatherer& g, const Type& type, int rank) {
    Floats weights(kCount, 1);
    EXPECT_EQ(g.gather(weights), weights);  // the first of the buffer
    for (const float x : {type.largest, -type.largest, type.least_extreme, -type.largest}) {
      Floats others = weights;
      others[2100] = x;  // of rank 1 alone: rank 0 has to hear of it
      EXPECT_EQ(g.gather(rank == 1 ? others : weights), rank == 1 ? weights : others) << x;
    }
    const terseStats_t stats = g.stats();
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], 1u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_NONFINITE], 4u);
    EXPECT_EQ(stats.delta_calls, 0u);
  });
}

// With errors of up to a step each, of the largest difference.
TEST_P(DeltaExtreme, WhatIsJustNotExtremeStaysFinite) {
  run([](Gatherer& g, const Type& type, int) {
    Floats weights(kCount, type.largest_usual);
    EXPECT_EQ(g.gather(weights), weights);
    for (size_t i = 0; i < kFew; i += 2) weights[i] = -weights[i];
    weights[1] = 1;
    weights[3] = 0;
    for (const float x : g.gather(weights)) ASSERT_TRUE(std::isfinite(x));
    EXPECT_EQ(g.stats().delta_calls, 1u);
    for (size_t i = 0; i < kFew; ++i) weights[i] = -weights[i];
    for (const float x : g.gather(weights)) ASSERT_TRUE(std::isfinite(x));
  });
}

TEST_P(DeltaExtreme, DifferencesGoOnAfterwards) {
  run([](Gatherer& g, const Type& type, int) {
    Floats weights(kCount, 1);
    g.gather(weights);
    weights[7] = type.largest;
    EXPECT_EQ(g.gather(weights), weights);
    weights[7] = 1;
    EXPECT_EQ(g.gather(weights), weights);
    for (float& x : weights) x += 1 / 128.0f;
    for (const float x : g.gather(weights)) ASSERT_NEAR(x, 1 + 1 / 128.0f, 1e-3f);
    EXPECT_EQ(g.stats().delta_calls, 1u);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, DeltaExtreme,
    testing::Values("int4:block=2048,delta=inplace", "int4:delta=shadow", "int2:delta=inplace",
                    "int4:round=stochastic,delta=inplace", "int8:delta=shadow",
                    "minmax2:round=shift,delta=shadow", "minmax4:round=stochastic,delta=inplace",
                    "fp8e4m3:delta=inplace", "fp8e5m2:delta=shadow", "mxfp4:delta=inplace",
                    "mxfp8:delta=shadow", "nvfp4:delta=inplace"));

}  // namespace
}  // namespace terse::test
