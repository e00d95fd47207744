// The compressed calls of a group share NCCL's groups, as far as memory goes.
#include <gtest/gtest.h>

#include "engine/run/work.h"
#include "idle_caller.h"

namespace terse::test {
namespace {

using plan::Collective;

struct Caller : IdleCaller {
  // How many of NCCL's groups a group with `calls` such calls takes.
  size_t groups(Collective collective, size_t count, int calls) {
    return groups(collective, std::vector<size_t>(static_cast<size_t>(calls), count));
  }
  size_t groups(Collective collective, const std::vector<size_t>& counts) {
    const size_t before = groups_started;
    group_start();
    for (const size_t count : counts) compress(collective, count);
    group_end();
    return groups_started - before;
  }
};

TEST(Sharing, TheCallsOfAGroupShareNcclsGroups) {
  Caller caller;
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather,
                                      Collective::kReduceScatter, Collective::kAllToAll}) {
    const size_t one = caller.groups(collective, 5'000, 1);
    EXPECT_EQ(one, collective == Collective::kAllReduce ? 2u : 1u);
    EXPECT_EQ(caller.groups(collective, 5'000, 18), one) << plan::name(collective);
  }
  EXPECT_EQ(caller.c.state.metrics().counters().sequence(), 4u * 19u);
  EXPECT_EQ(caller.c.state.metrics().counters().collectives(), 4u * 19u);
}

// What is native comes first, in a group of its own, and then all keep step.
TEST(Sharing, CallsWithExclusionsGoTogetherToo) {
  Caller caller;
  const size_t one = caller.groups(Collective::kAllReduce, 5'000, 1);
  caller.c.state.routing().plans().exclude(5'000, {{10, 20}});
  EXPECT_EQ(caller.groups(Collective::kAllReduce, 5'000, 1), 1 + one);
  EXPECT_EQ(caller.groups(Collective::kAllReduce, 5'000, 18), 1 + one);
  const std::vector<size_t> mixed = {5'000, 6'000, 5'000, 6'000};
  EXPECT_EQ(caller.groups(Collective::kAllReduce, mixed), 1 + one);
  EXPECT_EQ(groups_mixed, 0u);
  caller.c.state.routing().plans().exclude(5'000, {});
  EXPECT_EQ(caller.groups(Collective::kAllReduce, mixed), one);
}

TEST(Sharing, AsFarAsMemoryGoes) {
  Caller caller;
  constexpr size_t kCount = 3'000'000;  // more than the least that ranks agree on
  const size_t one = caller.groups(Collective::kAllReduce, kCount, 1);
  const Request r = caller.request(Collective::kAllReduce, kCount);
  const Job job{&caller.c.state, r, {.way = Compressed{caller.scheme}}};
  ASSERT_GT(plan_of_collective(job)->scratch_bytes, size_t{1} << 20);
  const size_t each = (plan_of_collective(job)->scratch_bytes + 255) / 256 * 256;
  for (const size_t places : {1u, 2u, 3u, 7u}) {
    caller.c.state.memory().reservations() = Reservations();
    caller.c.state.memory().reservations().add({.scratch = places * each});
    ASSERT_EQ(caller.c.state.memory().reservations().scratch(), places * each);
    EXPECT_EQ(caller.groups(Collective::kAllReduce, kCount, 10), one * ((10 + places - 1) / places))
        << places;
  }
}

// NCCL's groups have 256 messages at most, but for those of one call.
TEST(Sharing, AsFarAsOneLaunchOfNcclsGoes) {
  for (const auto& [ranks, at_once] : {std::pair{4, 42}, {8, 18}, {65, 2}, {66, 1}, {300, 1}}) {
    idle_ranks = ranks;
    Caller caller;
    const size_t one = caller.groups(Collective::kAllReduce, 5'000, 1);
    for (const int calls : {at_once, at_once + 1, 2 * at_once + 1})
      EXPECT_EQ(caller.groups(Collective::kAllReduce, 5'000, calls),
                one * ((calls + at_once - 1) / at_once))
          << calls << " on " << ranks;
  }
  idle_ranks = 8;
}

// A root's steps are not those of the others.
TEST(Sharing, CallsWithARootGoAlone) {
  Caller caller;
  for (const Collective collective :
       {Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter})
    EXPECT_EQ(caller.groups(collective, 5'000, 10), 10 * caller.groups(collective, 5'000, 1))
        << plan::name(collective);
}

}  // namespace
}  // namespace terse::test
