// A rank's thread may round otherwise than the others': what they decode is alike all the same.
#include <gtest/gtest.h>

#include <cfenv>

#include "delta_caller.h"
#include "ranks.h"

namespace terse::test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kCount = 5000;

class Rounding : public testing::TestWithParam<int> {};

// One rank's results under the mode, by rank; the others' under that of the program.
template <class Call>
std::vector<Floats> results(int mode, const Call& call) {
  std::vector<Floats> all(kRanks);
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    std::mt19937 random(static_cast<unsigned>(rank));
    Normal normal;
    Floats send(kCount);
    for (float& x : send) x = normal(random);
    const int before = std::fegetround();
    if (rank == 1) std::fesetround(mode);
    EXPECT_EQ(call(send, all[rank], comm), ncclSuccess) << terseGetLastError();
    std::fesetround(before);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
  return all;
}

void expect_alike(const std::vector<Floats>& all) {
  for (const Floats& one : all) {
    ASSERT_FALSE(one.empty());
    EXPECT_EQ(bytes_of(one, ncclFloat32), bytes_of(all[0], ncclFloat32));
  }
}

TEST_P(Rounding, OfAveragesIsAlike) {
  for (const char* text : {"int8:algo=oneshot", "int8", "linear8", "exp8"}) {
    const SchemeHandle scheme(text);
    expect_alike(results(GetParam(), [&](Floats& send, Floats& recv, ncclComm_t comm) {
      recv.resize(kCount);
      return terseAllReduce(send.data(), recv.data(), kCount, ncclFloat32, ncclAvg, scheme.get(),
                            comm, nullptr);
    }));
  }
}

TEST_P(Rounding, OfLevelsIsAlike) {
  for (const char* text :
       {"learned2:learn=never", "learned4:learn=never", "learned4", "learned7"}) {
    const SchemeHandle scheme(text);
    expect_alike(results(GetParam(), [&](Floats& send, Floats& recv, ncclComm_t comm) {
      recv.resize(kRanks * kCount);
      return terseAllGather(send.data(), recv.data(), kCount, ncclFloat32, scheme.get(), comm,
                            nullptr);
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Rounding,
                         testing::Values(FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO));

}  // namespace
}  // namespace terse::test
