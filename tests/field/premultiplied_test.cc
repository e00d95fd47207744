// Sums whose contributions are multiplied first, by a scalar of the element's own size.
#include <gtest/gtest.h>

#include "programs.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr int kRanks = 4;
constexpr double kRounded = 1e-7;  // of fp32, where a format has two scales

class Premultiplied : public EachScheme {};

// Ones of all ranks, times a scalar of each.
std::vector<Case> ones_times(const Floats& factors, ncclScalarResidence_t residence) {
  std::vector<Case> cases;
  const int ranks = static_cast<int>(factors.size());
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce})
    for (const ncclDataType_t type : {ncclBfloat16, ncclFloat16, ncclFloat32})
      for (const bool in_place : {false, true}) {
        Case c{.call = {.collective = collective, .datatype = type, .count = 293},
               .in_place = in_place,
               .gap = in_place ? 2u : 0u,
               .factors = factors,
               .residence = residence};
        c.sent.assign(factors.size(), bytes_of(Floats(send_count(c.call, ranks), 1.0f), type));
        cases.push_back(std::move(c));
      }
  return cases;
}

void expect_everywhere(double value, double tolerance, const Case& c,
                       const std::vector<Bytes>& received) {
  for (const Bytes& bytes : received)
    for (const double x : values(bytes, c.call.datatype))
      ASSERT_NEAR(x, value, tolerance) << name(c.call.collective) << " of type " << c.call.datatype;
}

// pytorch/pytorch#190745, #190747: a scalar of 2 bytes was read as one of 4.
TEST_P(Premultiplied, ScalarOfTwoBytesAtTheEndOfItsPage) {
  std::vector<Case> cases;
  for (const ncclScalarResidence_t residence : {ncclScalarHostImmediate, ncclScalarDevice})
    for (const float factor : {0.5f, 0.25f, 3.0f, -1.0f})
      for (Case& c : ones_times(Floats(kRanks, factor), residence)) cases.push_back(std::move(c));
  for (const std::string& name : {scheme(), std::string(kNative)}) {
    SCOPED_TRACE(name);
    const Results results = play(name, kRanks, cases);
    EXPECT_EQ(results.compressed, name == kNative ? 0 : cases.size());
    for (size_t i = 0; i < cases.size(); ++i)
      expect_everywhere(cases[i].factors[0] * kRanks, 12 * kRounded, cases[i], results.received[i]);
  }
}

TEST_P(Premultiplied, EachRankHasItsOwnScalar) {
  const auto cases = ones_times({4, -4, 2, 2}, ncclScalarHostImmediate);  // 0 and 4 are exact
  const Results results = play(scheme(), kRanks, cases);
  EXPECT_EQ(results.compressed, cases.size());
  for (size_t i = 0; i < cases.size(); ++i)
    expect_everywhere(4, 4 * 2 * step(scheme()), cases[i], results.received[i]);
}

// NVIDIA/nccl#1950: one rank alone has nobody to sum with, and multiplies all the same.
TEST_P(Premultiplied, OfOneRank) {
  const auto cases = ones_times({0.25f}, ncclScalarHostImmediate);
  const Results results = play(scheme(), 1, cases);
  for (size_t i = 0; i < cases.size(); ++i)
    expect_everywhere(0.25, 0, cases[i], results.received[i]);
}

INSTANTIATE_TEST_SUITE_P(Schemes, Premultiplied, kSchemes);

}  // namespace
}  // namespace terse::test
