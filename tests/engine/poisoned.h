// Calls of which one element is not finite, and what of it must be in every result.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "reference.h"
#include "trials.h"

namespace terse::test {

struct Poisoned {
  Call call;
  std::vector<Bytes> sent;
  bool nan;  // else it is infinite

  std::string describe() const {
    return fmt::format("{} of {} {} type {}", nan ? "a NaN" : "an infinity", name(call.collective),
                       print_scheme(call.scheme), static_cast<int>(call.datatype));
  }
};

// One for each collective, type, and value, which rank 1 sends among ones, to rank 2 where each
// rank gets something else.
inline std::vector<Poisoned> poisoned_calls(const char* scheme,
                                            std::span<const plan::Collective> collectives,
                                            int ranks) {
  constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  std::vector<Poisoned> all;
  for (const plan::Collective collective : collectives)
    for (const ncclDataType_t type : std::span(kTypes).first(trials(3, 1)))
      for (const bool nan : {true, false}) {
        const bool from_root =
            collective == plan::Collective::kBroadcast || collective == plan::Collective::kScatter;
        Poisoned p{.call = {.collective = collective,
                            .scheme = parse_scheme(scheme),
                            .datatype = type,
                            .count = 1100,
                            .root = from_root ? 1 : 2},
                   .sent = {},
                   .nan = nan};
        const size_t count = send_count(p.call, ranks);
        for (int r = 0; r < ranks; ++r) {
          std::vector<float> numbers(count, 1.0f);
          if (r == 1)
            numbers[7 + (count == p.call.count ? 0 : 2 * p.call.count)] =
                nan ? std::numeric_limits<float>::quiet_NaN()
                    : std::numeric_limits<float>::infinity();
          p.sent.push_back(bytes_of(numbers, type));
        }
        all.push_back(std::move(p));
      }
  return all;
}

// `got` by rank.
inline void expect_poison(const Poisoned& p, const std::vector<Bytes>& got) {
  SCOPED_TRACE(p.describe());
  const int ranks = static_cast<int>(got.size());
  const plan::Side& side = plan::traits(p.call.collective).recv;
  const auto truth = exact(p.call, p.sent);
  int poisoned = 0, receivers = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (plan::extent(side, {ranks, rank, p.call.root}) == 0) continue;
    ++receivers;
    const std::vector<double> found = values(got[rank], p.call.datatype);
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::isfinite(truth[rank][i])) continue;
      ++poisoned;
      EXPECT_TRUE(p.nan ? std::isnan(found[i]) : !std::isfinite(found[i]))
          << "rank " << rank << ", element " << i << " is " << found[i];
    }
    // In another block; nvfp4 has a scale of all elements.
    const bool apart = !print_scheme(p.call.scheme).starts_with("nvfp4");
    EXPECT_TRUE(!apart || std::isfinite(found.back())) << "rank " << rank;
  }
  EXPECT_GT(poisoned, 0);
  const plan::Collective collective = p.call.collective;
  if (collective != plan::Collective::kAllReduce && collective != plan::Collective::kAllGather &&
      collective != plan::Collective::kBroadcast)
    return;
  EXPECT_EQ(poisoned, ranks);
  for (const Bytes& each : got) EXPECT_EQ(each, got.front());
}

}  // namespace terse::test
