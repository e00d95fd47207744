// Sums of 16-bit elements by a 16-bit scheme of their type: exchanged as they are, made in fp32,
// and rounded once.
#include <gtest/gtest.h>

#include <algorithm>

#include "client_stats.h"
#include "codec/float16.h"
#include "ranks.h"
#include "reference.h"
#include "scheme_handle.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using plan::Collective;

Call sum_of(Collective collective, size_t count, const char* scheme = "bf16",
            ncclDataType_t datatype = ncclBfloat16) {
  return {.collective = collective,
          .scheme = parse_scheme(scheme),
          .datatype = datatype,
          .count = count};
}

std::vector<Bytes> gaussian_of(const Call& call, int ranks) {
  std::vector<Bytes> sent;
  for (int r = 0; r < ranks; ++r)
    sent.push_back(gaussian(send_count(call, ranks), call.datatype, 7 + static_cast<uint64_t>(r)));
  return sent;
}

std::vector<Bytes> results(const Call& call, const std::vector<Bytes>& sent,
                           std::vector<terseStats_t>* stats = nullptr) {
  const int ranks = static_cast<int>(sent.size());
  std::vector<Bytes> all(sent.size());
  if (stats != nullptr) stats->resize(sent.size());
  run_ranks(ranks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(call.scheme);
    all[rank].resize(recv_count(call, ranks) * datatype_size(call.datatype));
    ASSERT_EQ(call_terse(call, sent[rank].data(), all[rank].data(), scheme.get(), comm, nullptr),
              ncclSuccess)
        << terseGetLastError();
    if (stats != nullptr) (*stats)[rank] = client_stats(comm);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
  return all;
}

// The exact sum, rounded once.
Bytes rounded(const std::vector<double>& exact, ncclDataType_t datatype) {
  return bytes_of({exact.begin(), exact.end()}, datatype);
}

TEST(Fp32Sums, OfThreeRanksAreRoundedOnce) {
  const Call call = sum_of(Collective::kReduceScatter, 6400);
  const auto sent = gaussian_of(call, 3);
  EXPECT_EQ(results(call, sent), expected(call, sent));
}

TEST(Fp32Sums, AreTheSameOnAllRanks) {
  const Call call = sum_of(Collective::kAllReduce, 64'000);
  const auto got = results(call, gaussian_of(call, 4));
  for (const Bytes& one : got) EXPECT_TRUE(one == got[0]);
}

TEST(Fp32Sums, ErrAsTheExactSumRoundedOnce) {
  for (const int ranks : {8, 16})
    for (const Collective collective : {Collective::kReduceScatter, Collective::kAllReduce})
      for (const auto& [scheme, type] :
           {std::pair{"bf16", ncclBfloat16}, std::pair{"fp16", ncclFloat16}}) {
        const Call call = sum_of(collective, 1 << 16, scheme, type);
        const auto sent = gaussian_of(call, ranks);
        const auto truth = exact(call, sent)[0];
        const double once = relative_error(values(rounded(truth, type), type), truth);
        EXPECT_LT(relative_error(values(results(call, sent)[0], type), truth), 1.02 * once)
            << scheme << " on " << ranks;
      }
}

TEST(Fp32Sums, SendNoMoreThanNative) {
  for (const Collective collective : {Collective::kReduceScatter, Collective::kAllReduce})
    for (const size_t count : {size_t{64'000}, size_t{64'001}, size_t{99'999}}) {
      const Call call = sum_of(collective, count);
      std::vector<terseStats_t> stats;
      results(call, gaussian_of(call, 4), &stats);
      uint64_t sent = 0, native = 0;
      for (size_t r = 0; r < stats.size(); ++r) {
        EXPECT_EQ(stats[r].calls, 1u) << count;
        sent += stats[r].wire_bytes;
        native += stats[r].raw_bytes;
      }
      EXPECT_LE(sent, native + 4 * 64) << count;
    }
}

}  // namespace
}  // namespace terse::test
