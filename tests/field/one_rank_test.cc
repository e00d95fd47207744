// Communicators of one rank.
#include <gtest/gtest.h>

#include <algorithm>

#include "programs.h"

namespace terse::test {
namespace {

using plan::Collective;

class OneRank : public EachScheme {};

Floats ramp(size_t count) {
  Floats x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 61) - 30;
  return x;
}

std::vector<size_t> counts() {
  std::vector<size_t> all;
  for (size_t count = 1; count <= 4097; count += count < 66 ? 1 : 61) all.push_back(count);
  for (const size_t count : {127, 128, 129, 4095, 4096, 4097}) all.push_back(count);
  return all;
}

// NVIDIA/nccl#1950, pytorch/pytorch#168092: the last elements were left as they were.
TEST_P(OneRank, EveryElementIsThere) {
  struct Kind {
    Collective collective;
    ncclRedOp_t op;
    float factor;  // 1: of no PreMulSum
  };
  static constexpr Kind kKinds[] = {
      {Collective::kAllReduce, ncclSum, 1},        {Collective::kAllReduce, ncclAvg, 1},
      {Collective::kAllReduce, ncclSum, 0.5f},     {Collective::kReduceScatter, ncclAvg, 1},
      {Collective::kReduceScatter, ncclSum, 0.5f}, {Collective::kReduce, ncclSum, 0.5f},
      {Collective::kAllGather, ncclSum, 1},        {Collective::kBroadcast, ncclSum, 1},
      {Collective::kAllToAll, ncclSum, 1}};
  std::vector<Case> cases;
  for (const size_t count : counts()) {
    // Each count meets all kinds, and all else in turn.
    for (const Kind& kind : kKinds) {
      constexpr ncclDataType_t kTypes[] = {ncclBfloat16, ncclFloat16, ncclFloat32};
      const size_t turn = cases.size();
      cases.push_back({.call = {.collective = kind.collective,
                                .datatype = kTypes[turn % 3],
                                .op = kind.op,
                                .count = count},
                       .sent = {bytes_of(ramp(count), kTypes[turn % 3])},
                       .in_place = turn / 3 % 2 == 1,
                       .gap = turn / 6 % 2 == 1 ? 2u : 0u});
      if (kind.factor != 1) cases.back().factors = {kind.factor};
    }
  }
  const Results results = play(scheme(), 1, cases);
  EXPECT_EQ(results.compressed, 0u);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Call& call = cases[i].call;
    Floats want = ramp(call.count);
    for (float& x : want) x *= cases[i].factors.empty() ? 1 : cases[i].factors[0];
    ASSERT_EQ(results.received[i][0], bytes_of(want, call.datatype))
        << name(call.collective) << " of " << call.count << ", case " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, OneRank, kSchemes);

}  // namespace
}  // namespace terse::test
