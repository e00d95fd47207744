// Policies that go by what the ranks tell each other: nodes and names. The ranks are threads, and
// so on one node; nodes_test.py has several.
#include "engine/call/route.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "engine/peers/agree.h"
#include "idle.h"
#include "own_settings.h"
#include "ranks.h"

namespace terse::test {
namespace {

[[maybe_unused]] const bool set =
    setenv("TERSE_SCHEME",
           "nodes=2.. -> int2; name=dp* -> int4; nodes=1 ranks=2 -> int8; sendrecv nodes=2 -> int2",
           1) == 0;

Request request() { return {.collective = plan::Collective::kAllReduce, .count = 1 << 20}; }

std::string error_of(const auto& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidUsage);
    return e.message;
  }
  return "none";
}

void meet(Communicator& c, const Request& request) {
  const PendingCall alone{&c, &request};
  discover_topology({&alone, 1});
}

TEST(Route, TheRanksMeetWhereThePolicyGoesByNodes) {
  run_ranks(2, [](int, ncclComm_t comm) {
    Communicator& c = *communicator(comm);
    EXPECT_EQ(c.topology().nodes(), 0);
    EXPECT_TRUE(needs_topology(c, request()));
    meet(c, request());
    EXPECT_EQ(c.topology().nodes(), 1);
    EXPECT_FALSE(needs_topology(c, request()));
    const Route way = route(c, request());
    EXPECT_EQ(way.rule, 2u);
    EXPECT_EQ(way.compressed().scheme, parse_scheme("int8"));
    EXPECT_FALSE(way.bypass());
    release_communicator(comm, false);
  });
}

TEST(Route, ACommunicatorIsKnownByItsNameOrItsOrdinal) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    Communicator& c = *communicator(comm);
    EXPECT_EQ(c.describe(), fmt::format("a new communicator, rank {} of 2", rank));
    meet(c, request());
    EXPECT_EQ(c.describe(),
              fmt::format("communicator #{}, rank {} of 2", c.agreed().ordinal(), rank));
    name_communicator(comm, "dp");
    EXPECT_EQ(c.describe(), fmt::format("communicator \"dp\", rank {} of 2", rank));
    release_communicator(comm, false);
  });
}

TEST(Route, OneRankIsOnOneNodeWithoutMeeting) {
  run_ranks(1, [](int, ncclComm_t comm) {
    EXPECT_EQ(communicator(comm)->topology().nodes(), 1);
    EXPECT_FALSE(needs_topology(*communicator(comm), request()));
    EXPECT_EQ(route(*communicator(comm), request()).bypass(), TERSE_BYPASS_OFF);
    release_communicator(comm, false);
  });
}

TEST(Route, InAGroupTheRanksMeetAtItsEnd) {
  run_ranks(2, [](int, ncclComm_t comm) {
    Communicator& c = *communicator(comm);
    std::vector<float> data(1 << 20, 1.5f);
    Request r = request();
    r.send = r.recv = data.data();
    group_start();
    defer(c, r);
    EXPECT_EQ(c.topology().nodes(), 0);
    EXPECT_EQ(data[0], 1.5f);
    group_end();
    EXPECT_EQ(c.topology().nodes(), 1);
    EXPECT_EQ(c.metrics().counters().stats().calls, 1u);
    EXPECT_EQ(data[0], 3.0f);
    release_communicator(comm, false);
  });
}

// Nothing is begun, and the next call starts anew.
void expect_refused(Communicator& c, Request r, const char* collective, const char* why) {
  char data[2];
  r.send = data;
  r.recv = data + 1;
  const size_t groups = groups_started;
  const auto deferred = [&] {
    group_start();
    defer(c, r);
    group_end();
  };
  for (const std::string& error : {error_of([&] { meet(c, r); }), error_of(deferred)}) {
    EXPECT_EQ(error.find(fmt::format("{}: {}", c.describe(), collective)), 0u) << error;
    EXPECT_NE(error.find(why), std::string::npos) << error;
  }
  EXPECT_EQ(group_depth(), 0);
  EXPECT_EQ(groups_started, groups);
  EXPECT_FALSE(c.agreed().introduced());
  EXPECT_TRUE(needs_topology(c, r));
}

TEST(Route, WhereTheRanksCannotMeetIsAnError) {
  IdleCommunicator c{parse_scheme("int8")};
  c.state.routing().plans().learn({});
  c.state.agreed().withdraw();
  Request r = request();
  c.backend.recorded = 1;
  expect_refused(c.state, r, "AllReduce", "while a graph is recorded");
  c.backend.recorded = 0;
  r.collective = plan::Collective::kRecv;
  expect_refused(c.state, r, "Recv", " goes by the number of nodes");
}

TEST(Route, GoesByTheCommunicatorsName) {
  run_ranks(3, [](int, ncclComm_t comm) {
    name_communicator(comm, "dp-outer");
    Communicator& c = *communicator(comm);
    EXPECT_EQ(route(c, request()).rule, 1u);
    name_communicator(comm, nullptr);
    EXPECT_EQ(c.name(), "");
    EXPECT_EQ(route(c, request()).bypass(), TERSE_BYPASS_OFF);
    release_communicator(comm, false);
  });
}

TEST(Route, NamesThatDifferAreAnErrorOnEachRank) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    name_communicator(comm, rank == 1 ? "tp" : "dp");
    const Agreement meeting{communicator(comm).get(), nullptr, nullptr};
    const std::string error = error_of([&] { agree({&meeting, 1}); });
    EXPECT_NE(error.find(rank == 1 ? "is \"dp\" on rank 0, but \"tp\" on this rank"
                                   : "is \"tp\" on rank 1, but \"dp\" on this rank"),
              std::string::npos)
        << error;
    EXPECT_EQ(communicator(comm)->topology().nodes(), 0);
    release_communicator(comm, false);
  });
}

}  // namespace
}  // namespace terse::test
