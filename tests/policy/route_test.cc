// Policies that go by what the ranks tell each other: nodes and names. The ranks are threads, and
// so on one node; nodes_test.py has several.
#include "engine/route.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/agree.h"
#include "engine/group.h"
#include "ranks.h"

namespace terse::test {
namespace {

[[maybe_unused]] const bool set =
    setenv("TERSE_SCHEME", "nodes=2.. -> int2; name=dp* -> int4; nodes=1 ranks=2 -> int8", 1) == 0;

Request request(ncclComm_t comm) {
  return {.collective = plan::Collective::kAllReduce, .count = 1 << 20, .comm = comm};
}

std::string error_of(const auto& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidUsage);
    return e.message;
  }
  return "none";
}

TEST(Route, TheRanksMeetWhereThePolicyGoesByNodes) {
  run_ranks(2, [](int, ncclComm_t comm) {
    Communicator& c = communicator(comm);
    EXPECT_EQ(c.nodes, 0);
    const Route way = route(c, request(comm));
    EXPECT_EQ(c.nodes, 1);
    EXPECT_EQ(way.rule, 2u);
    EXPECT_EQ(way.scheme, parse_scheme("int8"));
    EXPECT_FALSE(way.bypass);
    release_communicator(comm, false);
  });
}

TEST(Route, OneRankIsOnOneNodeWithoutMeeting) {
  run_ranks(1, [](int, ncclComm_t comm) {
    EXPECT_EQ(communicator(comm).nodes, 1);
    EXPECT_EQ(route(communicator(comm), request(comm)).bypass, TERSE_BYPASS_OFF);
    release_communicator(comm, false);
  });
}

TEST(Route, TheRanksCannotMeetInAGroup) {
  run_ranks(2, [](int, ncclComm_t comm) {
    Communicator& c = communicator(comm);
    group_start();
    const std::string error = error_of([&] { route(c, request(comm)); });
    EXPECT_NE(error.find("before any group"), std::string::npos) << error;
    EXPECT_EQ(error.find(c.describe()), 0u) << error;
    group_abandon();
    EXPECT_EQ(route(c, request(comm)).rule, 2u);
    group_start();
    EXPECT_EQ(route(c, request(comm)).rule, 2u) << "they know by now";
    group_abandon();
    release_communicator(comm, false);
  });
}

TEST(Route, GoesByTheCommunicatorsName) {
  run_ranks(3, [](int, ncclComm_t comm) {
    name_communicator(comm, "dp-outer");
    Communicator& c = communicator(comm);
    EXPECT_EQ(route(c, request(comm)).rule, 1u);
    name_communicator(comm, nullptr);
    EXPECT_EQ(c.name, "");
    EXPECT_EQ(route(c, request(comm)).bypass, TERSE_BYPASS_OFF);
    release_communicator(comm, false);
  });
}

TEST(Route, NamesThatDifferAreAnErrorOnEachRank) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    name_communicator(comm, rank == 1 ? "tp" : "dp");
    const Agreement meeting{&communicator(comm), nullptr, nullptr};
    const std::string error = error_of([&] { agree({&meeting, 1}); });
    EXPECT_NE(error.find(rank == 1 ? "is \"dp\" on rank 0, but \"tp\" on this rank"
                                   : "is \"tp\" on rank 1, but \"dp\" on this rank"),
              std::string::npos)
        << error;
    EXPECT_EQ(communicator(comm).nodes, 0);
    release_communicator(comm, false);
  });
}

}  // namespace
}  // namespace terse::test
