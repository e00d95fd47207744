// Averages of the largest and the smallest numbers that a type has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "programs.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr float kMaxBf16 = 0x1.fep127f;
constexpr float kMaxFp16 = 65504;
constexpr double kFlat = 0x1p-109;  // blocks of less are zeros
constexpr size_t kCount = 293;      // the last block is not full

struct Ends {
  ncclDataType_t type;
  float max, min;  // the smallest is subnormal
};
constexpr Ends kEnds[] = {{ncclBfloat16, kMaxBf16, 0x1p-133f},
                          {ncclFloat16, kMaxFp16, 0x1p-24f},
                          {ncclFloat32, FLT_MAX, FLT_TRUE_MIN}};

// What rank `rank` sends at element i.
struct Pattern {
  const char* name;
  float (*at)(const Ends& ends, int rank, size_t i);
  bool is_small = false;  // exp8's powers of two reach beyond what is not, in fp16
};
constexpr Pattern kPatterns[] = {
    {"the largest number", [](const Ends& ends, int, size_t) { return ends.max; }},
    {"the largest number of either sign",
     [](const Ends& ends, int, size_t i) { return i % 3 == 0 ? -ends.max : ends.max; }},
    {"the largest number on one rank alone",
     [](const Ends& ends, int rank, size_t) { return rank == 1 ? ends.max : 0; }},
    {"the largest number among zeros",
     [](const Ends& ends, int, size_t i) { return i % 128 == 5 ? ends.max : 0; }},
    // A scale of a block must be neither zero nor infinite.
    {"subnormal numbers",
     [](const Ends& ends, int rank, size_t i) {
       return ends.min * static_cast<float>(1 + (i + static_cast<size_t>(rank)) % 7);
     },
     true}};

class Averages : public EachScheme {};

const Ends& ends_of(ncclDataType_t type) { return *std::ranges::find(kEnds, type, &Ends::type); }

Case average_of(const Pattern& pattern, Collective collective, const Ends& ends, int ranks) {
  Case c{.call = {.collective = collective, .datatype = ends.type, .op = ncclAvg, .count = kCount}};
  for (int r = 0; r < ranks; ++r) {
    Floats x(send_count(c.call, ranks));
    for (size_t i = 0; i < x.size(); ++i) x[i] = pattern.at(ends, r, i);
    c.sent.push_back(bytes_of(x, ends.type));
  }
  return c;
}

double largest_of(const std::vector<Bytes>& sent, ncclDataType_t type) {
  double largest = 0;
  for (const Bytes& of_rank : sent)
    for (const double x : values(of_rank, type)) largest = std::max(largest, std::abs(x));
  return largest;
}

// The largest error of what all ranks received; infinite where that is not finite, but natively is.
double worst_error(const Case& c, const std::vector<Bytes>& received,
                   const std::vector<Bytes>& native) {
  const auto truth = exact(c.call, c.sent);
  double worst = 0;
  for (size_t r = 0; r < received.size(); ++r) {
    const auto found = values(received[r], c.call.datatype);
    const auto nccls = values(native[r], c.call.datatype);
    EXPECT_EQ(found.size(), truth[r].size());
    for (size_t k = 0; k < found.size(); ++k) {
      if (!std::isfinite(nccls[k]) && !std::isfinite(found[k])) continue;
      const double error = std::abs(found[k] - truth[r][k]);
      worst = std::isfinite(error) ? std::max(worst, error) : HUGE_VAL;
    }
  }
  return worst;
}

// torchcomms#4069, #4071, pytorch/pytorch#57410, horovod#1699: the sum overflowed before it was
// divided. Here averages are finite, and within two steps of the exact ones; those of ten ranks
// may be infinite where NCCL's own are, for ten times a tenth as it is rounded is more than one.
TEST_P(Averages, AtTheEndsOfTheirType) {
  for (const int ranks : {3, 10}) {
    std::vector<Case> cases;
    std::vector<const char*> patterns;
    for (const Pattern& pattern : kPatterns)
      for (const Ends& ends : kEnds)
        for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
          if (scheme() == "exp8" && ends.type == ncclFloat16 && !pattern.is_small) continue;
          cases.push_back(average_of(pattern, collective, ends, ranks));
          patterns.push_back(pattern.name);
        }
    const Results got = play(scheme(), ranks, cases), native = play(kNative, ranks, cases);
    EXPECT_GT(got.compressed, 0u);
    for (size_t i = 0; i < cases.size(); ++i) {
      const Call& call = cases[i].call;
      const double bound = 2 * step(scheme()) * largest_of(cases[i].sent, call.datatype) +
                           ends_of(call.datatype).min + kFlat;
      EXPECT_LE(worst_error(cases[i], got.received[i], native.received[i]), bound)
          << scheme() << " on " << ranks << " ranks, " << name(call.collective) << " of type "
          << call.datatype << ", " << patterns[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Averages, kSchemes);

}  // namespace
}  // namespace terse::test
