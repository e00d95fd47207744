// What ranks say to each other where they do not agree.
#include "engine/peers/agree.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "engine/peers/host_all_gather.h"
#include "ranks.h"
#include "reference.h"

namespace terse::test {
namespace {

// A rank whose terse is another one: of what all versions say alike the number comes first.
void say_version(Communicator& c, uint32_t version) {
  std::array<char, kMinWordsBytes> words{};
  std::memcpy(words.data(), &version, sizeof version);
  HostAllGather exchange(c, words.size());
  exchange.post(words);
  HostAllGather* const all[] = {&exchange};
  run_all_gathers(all, Timeout::kInit);
  drain_all_gathers(all);
}

TEST(Agreement, NamesVersionsAsPeopleDo) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const CommunicatorPointer c = communicator(comm, settings());
    if (rank == 1) {
      say_version(*c, 10203);
    } else {
      const Agreement settings_alone{c.get(), nullptr, nullptr};
      try {
        agree({&settings_alone, 1});
        ADD_FAILURE() << "they agree";
      } catch (const Error& e) {
        const std::string text =
            fmt::format("rank 1 has version 1.2.3 of terse, this rank {}.{}.{}",
                        TERSE_VERSION_MAJOR, TERSE_VERSION_MINOR, TERSE_VERSION_PATCH);
        EXPECT_EQ(e.result, ncclInvalidUsage);
        EXPECT_NE(e.message.find(fmt::format("rank {} of 3", rank)), std::string::npos)
            << e.message;
        EXPECT_TRUE(e.message.ends_with(text)) << e.message;
      }
    }
    release_communicator(comm, true);
  });
}

// Nothing is compared for a seed, and so nothing has to be remembered of it.
TEST(Agreement, SeedsMayDifferAndTheResultIsStillThatOfAllRanks) {
  constexpr size_t kCount = 50'021;
  constexpr int kRanks = 3;
  std::array<Bytes, kRanks> sums[3];
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Bytes in = gaussian(kCount, ncclFloat32, 3 + static_cast<unsigned>(rank));
    for (size_t call = 0; call < std::size(sums); ++call) {
      Scheme scheme = parse_scheme("int6:round=stochastic");
      if (call > 0) scheme.seed = 100 * call + static_cast<size_t>(rank);
      Bytes& out = sums[call][static_cast<size_t>(rank)];
      out.resize(in.size());
      submit(comm,
             {.collective = plan::Collective::kAllReduce,
              .send = in.data(),
              .recv = out.data(),
              .count = kCount,
              .datatype = ncclFloat32},
             scheme, settings());
    }
    release_communicator(comm, false);
  });
  for (const auto& of_ranks : sums)
    for (const Bytes& sum : of_ranks) EXPECT_EQ(sum, of_ranks[0]);
  EXPECT_NE(sums[0][0], sums[1][0]);
  EXPECT_NE(sums[1][0], sums[2][0]);
}

}  // namespace
}  // namespace terse::test
