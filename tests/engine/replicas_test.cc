// Replicas make the same calls on communicators of their own: of the same elements they give the
// same.
#include <gtest/gtest.h>

#include "ranks.h"
#include "reference.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr int kRanks = 3, kCalls = 2;
constexpr size_t kCount = 60'000;  // more than its samples

using Results = std::vector<std::vector<Bytes>>;  // by call, by rank

// Of a communicator of its own.
Results results(const Call& call, const char* text, const std::vector<Bytes>& sent) {
  Results all(kCalls, std::vector<Bytes>(kRanks));
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(text);
    for (auto& one : all) {
      one[rank].resize(recv_count(call, kRanks) * datatype_size(call.datatype));
      ASSERT_EQ(call_terse(call, sent[rank].data(), one[rank].data(), scheme.get(), comm, nullptr),
                ncclSuccess)
          << terseGetLastError();
    }
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
  return all;
}

double part_of_unlike_bytes(const Bytes& a, const Bytes& b) {
  size_t unlike = 0;
  for (size_t i = 0; i < a.size(); ++i) unlike += a[i] != b[i];
  return static_cast<double>(unlike) / static_cast<double>(a.size());
}

class Replicas : public testing::TestWithParam<const char*> {};

TEST_P(Replicas, StayAlike) {
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kReduceScatter, Collective::kReduce}) {
    const Call call{.collective = collective, .count = kCount};
    std::vector<Bytes> sent;
    for (int r = 0; r < kRanks; ++r)
      sent.push_back(gaussian(send_count(call, kRanks), ncclFloat32, 20 + r));
    const Results first = results(call, GetParam(), sent),
                  replica = results(call, GetParam(), sent);
    EXPECT_EQ(first, replica) << plan::name(collective);
    EXPECT_GT(part_of_unlike_bytes(first[0][0], first[1][0]), 0.05)
        << plan::name(collective) << ": a later call of the same";
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, Replicas,
                         testing::Values("int4:round=stochastic", "minmax8:round=shift",
                                         "bf16:round=stochastic", "linear8", "exp8",
                                         "int4:round=stochastic,hadamard=32",
                                         "int8:round=stochastic,algo=oneshot"));

}  // namespace
}  // namespace terse::test
