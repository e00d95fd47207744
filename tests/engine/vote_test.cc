// Votes: each rank casts a value of a type, and reads those of all.
#include "engine/peers/vote.h"

#include <gtest/gtest.h>

#include <array>

#include "engine/comm/directory.h"
#include "own_settings.h"
#include "ranks.h"

namespace terse::test {
namespace {

TEST(Votes, AreReadByAllRanks) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const CommunicatorPointer c = communicator(comm, settings());
    std::array<Vote<int>, 1> votes{Vote<int>(*c, 10 * rank)};
    run_votes(votes, Timeout::kInit);
    EXPECT_EQ(votes[0].all(), (std::vector{0, 10, 20}));
    EXPECT_EQ(votes[0].of(2), 20);
    EXPECT_EQ(votes[0].first([](int cast) { return cast > 0; }), 1);
    EXPECT_EQ(votes[0].first([](int cast) { return cast > 20; }), std::nullopt);
    release_communicator(comm, true);
  });
}

TEST(Votes, OfTwoRanksAreReadByThese) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const CommunicatorPointer c = communicator(comm, settings());
    if (rank != 1) {
      const int peer = 2 - rank;
      std::array<Vote<int>, 1> votes{Vote<int>(*c, 10 * rank, peer)};
      run_votes(votes, Timeout::kInit);
      EXPECT_EQ(votes[0].all(), std::vector{10 * peer});
      EXPECT_EQ(votes[0].of(peer), 10 * peer);
      EXPECT_EQ(votes[0].first([](int) { return true; }), peer);
    }
    release_communicator(comm, true);
  });
}

// As many bytes as all communicators have room for, whatever the number of their ranks.
TEST(Votes, MayBeOfTheFirstBytesAlone) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const CommunicatorPointer c = communicator(comm, settings());
    using Values = std::array<int, 3>;
    const Values mine{rank, 10 * rank, -1};
    std::array<Vote<Values>, 1> votes{Vote<Values>(*c, mine, std::nullopt, true, 2 * sizeof(int))};
    run_votes(votes, Timeout::kInit);
    EXPECT_EQ(votes[0].all(), (std::vector<Values>{{0, 0, 0}, {1, 10, 0}, {2, 20, 0}}));
    release_communicator(comm, true);
  });
}

TEST(Votes, HaveRoomInABufferThatStaysSmallWithManyRanks) {
  EXPECT_EQ(words_bytes(2), kMaxWordsBytes);
  EXPECT_EQ(words_bytes(1024), kMaxWordsBytes);
  EXPECT_EQ(words_bytes(4096), 256u);
  EXPECT_EQ(words_bytes(1 << 20), kMinWordsBytes);
  EXPECT_EQ(1 + kMinWordsBytes, 64u) << "with the mark of the control buffer";
}

struct Cast {
  uint64_t content;
};

// Ranks with another build have another layout of what they cast, though it is as large.
struct OtherCast {
  uint32_t content, of_others;
};

}  // namespace
}  // namespace terse::test

template <>
constexpr uint64_t terse::kLayout<terse::test::Cast> =
    terse::layout_of("Cast", &terse::test::Cast::content);
template <>
constexpr uint64_t terse::kLayout<terse::test::OtherCast> =
    terse::layout_of("Cast", &terse::test::OtherCast::content, &terse::test::OtherCast::of_others);

namespace terse::test {
namespace {

template <class T>
std::string error_of_vote(Communicator& c) {
  try {
    std::array<Vote<T>, 1> votes{Vote<T>(c, T{})};
    run_votes(votes, Timeout::kInit);
    return "none";
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidUsage);
    return e.message;
  }
}

TEST(Votes, OfAnotherBuildAreAnErrorOnAllRanks) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const CommunicatorPointer c = communicator(comm, settings());
    const std::string error = rank == 1 ? error_of_vote<OtherCast>(*c) : error_of_vote<Cast>(*c);
    const std::string expected = fmt::format(
        "rank {} has another build of terse {}.{}.{} than this rank: the ranks need "
        "the same one",
        rank == 1 ? 0 : 1, TERSE_VERSION_MAJOR, TERSE_VERSION_MINOR, TERSE_VERSION_PATCH);
    EXPECT_TRUE(error.ends_with(expected)) << error;
    EXPECT_NE(error.find(fmt::format("rank {} of 3: ", rank)), std::string::npos) << error;
    release_communicator(comm, true);
  });
}

TEST(Votes, LayoutsDifferByNameMembersAndTheirOrder) {
  struct Small {
    uint32_t first;
    uint16_t second, third;
  };
  const uint64_t layouts[] = {
      layout_of("Small", &Small::first, &Small::second, &Small::third),
      layout_of("Other", &Small::first, &Small::second, &Small::third),
      layout_of("Small", &Small::second, &Small::first, &Small::third),
      kLayout<std::array<uint32_t, 2>>,
      kLayout<std::array<uint32_t, 3>>,
      kLayout<std::array<uint64_t, 2>>,
  };
  for (const uint64_t& one : layouts)
    for (const uint64_t& other : layouts) EXPECT_EQ(one == other, &one == &other);
}

}  // namespace
}  // namespace terse::test
