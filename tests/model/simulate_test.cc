// Simulated calls, against times that are made by hand; and the plans of all algorithms.
#include "model/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "model/predict.h"
#include "plan/link.h"

namespace terse::model {
namespace {

using plan::Collective;
using plan::Shape;
using plan::Traffic;

constexpr double kLatency = 0x1p-4, kFarLatency = 0x1p-2;
constexpr double kRate = 1024, kFarRate = 256;  // bytes a second

Profile machine() {
  return {.within = Link{kLatency, kRate},
          .between = Link{kFarLatency, kFarRate},
          .coding = {0x1p12, 0x1p11}};
}

WorkMessage to(uint32_t peer, size_t bytes) { return {peer, true, bytes}; }
WorkMessage from(uint32_t peer, size_t bytes) { return {peer, false, bytes}; }

WorkStep exchange(std::vector<WorkMessage> messages, std::vector<uint32_t> after = {}) {
  return {.after = std::move(after), .messages = std::move(messages)};
}
WorkStep coding(double seconds, std::vector<uint32_t> after = {}) {
  return {.after = std::move(after), .coding = seconds};
}

// Ranks on nodes of equally many.
Simulation run(const std::vector<RankWork>& ranks, int nodes, const Profile& profile = machine()) {
  return simulate(profile, plan::even_topology(static_cast<int>(ranks.size()), nodes), ranks);
}
double seconds_of(const std::vector<RankWork>& ranks, int nodes,
                  const Profile& profile = machine()) {
  const Simulation simulation = run(ranks, nodes, profile);
  EXPECT_EQ(simulation.failure, "");
  return simulation.seconds;
}

TEST(Simulate, AMessageTakesItsLatencyAndItsBytes) {
  const std::vector<RankWork> ranks{{exchange({to(1, 512)})}, {exchange({from(0, 512)})}};
  EXPECT_DOUBLE_EQ(seconds_of(ranks, 1), kLatency + 512 / kRate);
  EXPECT_DOUBLE_EQ(seconds_of(ranks, 2), kFarLatency + 512 / kFarRate);
  EXPECT_EQ(run(ranks, 1).sent, (Traffic{512}));
  EXPECT_EQ(run(ranks, 2).sent, (Traffic{512, 512}));
}

TEST(Simulate, ALinkGoesBothWaysAtOnce) {
  const auto both = [](uint32_t peer) {
    return RankWork{exchange({to(peer, 512), from(peer, 512)})};
  };
  EXPECT_DOUBLE_EQ(seconds_of({both(1), both(0)}, 1), kLatency + 512 / kRate);
}

TEST(Simulate, MessagesShareALink) {
  // of the rank that sends; of the one that receives
  EXPECT_DOUBLE_EQ(seconds_of({{exchange({to(1, 512), to(2, 512)})},
                               {exchange({from(0, 512)})},
                               {exchange({from(0, 512)})}},
                              1),
                   kLatency + 1024 / kRate);
  EXPECT_DOUBLE_EQ(seconds_of({{exchange({to(2, 512)})},
                               {exchange({to(2, 512)})},
                               {exchange({from(0, 512), from(1, 512)})}},
                              1),
                   kLatency + 1024 / kRate);
}

TEST(Simulate, RanksOfANodeShareItsLinks) {
  const std::vector<RankWork> two{{exchange({to(2, 256)})},
                                  {exchange({to(3, 256)})},
                                  {exchange({from(0, 256)})},
                                  {exchange({from(1, 256)})}};
  EXPECT_DOUBLE_EQ(seconds_of(two, 2), kFarLatency + 512 / kFarRate);
  const std::vector<RankWork> one{two[0], {}, two[2], {}};
  EXPECT_DOUBLE_EQ(seconds_of(one, 2), kFarLatency + 256 / kFarRate);
  // With a link for each of them one rank has half of the node's rate.
  Profile rails = machine();
  rails.nics = 2;
  EXPECT_DOUBLE_EQ(seconds_of(two, 2, rails), kFarLatency + 256 / (kFarRate / 2));
  EXPECT_DOUBLE_EQ(seconds_of(one, 2, rails), kFarLatency + 256 / (kFarRate / 2));
}

TEST(Simulate, NodesOfAPodShareItsLink) {
  Profile p = machine();
  p.pods = Link{1, 64};
  const std::vector<RankWork> ranks{{exchange({to(2, 256)})}, {}, {exchange({from(0, 256)})}, {}};
  // One node alone has the rate of both.
  const Simulation s = simulate(p, plan::even_topology(4, 4, 2), ranks);
  EXPECT_DOUBLE_EQ(s.seconds, 1 + 256.0 / (2 * 64));
  EXPECT_EQ(s.sent, (Traffic{256, 256, 256}));
}

// None waits for all of another one.
TEST(Simulate, LongMessagesTakeTurns) {
  Profile fast = machine();
  fast.within->bandwidth = 0x1p20;
  const size_t large = size_t{8} << 20, small = size_t{64} << 10;
  const std::vector<RankWork> ranks{{exchange({to(1, large)}), exchange({to(2, small)})},
                                    {exchange({from(0, large)})},
                                    {exchange({from(0, small)}), coding(100, {0})}};
  EXPECT_DOUBLE_EQ(seconds_of(ranks, 1, fast), 1 + 0x1p-4 + kLatency + 100);
}

TEST(Simulate, AStepWaitsForThoseThatItNames) {
  EXPECT_DOUBLE_EQ(seconds_of({{exchange({to(1, 512)}), coding(1, {0}), coding(2, {1})},
                               {exchange({from(0, 512)})}},
                              1),
                   512 / kRate + 3);  // it has left before it is there
  EXPECT_DOUBLE_EQ(seconds_of({{exchange({to(1, 512)})},
                               {exchange({from(0, 512)}), coding(1, {0}), coding(2, {1})}},
                              1),
                   kLatency + 512 / kRate + 3);
}

TEST(Simulate, ALaunchGoesAheadOfCodesAndMessages) {
  const WorkStep encode{.launch = 2, .coding = 1};
  WorkStep send = exchange({to(1, 512)}, {0});
  send.launch = 4;
  EXPECT_DOUBLE_EQ(seconds_of({{encode, send}, {exchange({from(0, 512)})}}, 1),
                   7 + 512 / kRate + kLatency);
}

TEST(Simulate, ARankCodesOneStepAtATime) {
  EXPECT_DOUBLE_EQ(seconds_of({{coding(1), coding(2)}, {coding(2.5)}}, 1), 3);
}

TEST(Simulate, CodingGoesAlongWithMessages) {
  EXPECT_DOUBLE_EQ(
      seconds_of({{exchange({to(1, 1024)}), coding(0.75)}, {exchange({from(0, 1024)}), coding(1)}},
                 1),
      kLatency + 1024 / kRate);
}

TEST(Simulate, AMessageStartsWhenBothEndsAreThere) {
  EXPECT_DOUBLE_EQ(
      seconds_of({{exchange({to(1, 512)})}, {coding(3), exchange({from(0, 512)}, {0})}}, 1),
      3 + 512 / kRate + kLatency);
}

// The first of two is late on the sender's side alone.
TEST(Simulate, MessagesMatchInTheOrderOfSteps) {
  EXPECT_DOUBLE_EQ(
      seconds_of({{coding(3), exchange({to(1, 512)}, {0}), exchange({to(1, 256)})},
                  {exchange({from(0, 512)}), exchange({from(0, 256)}), coding(1, {0})}},
                 1),
      3 + 512 / kRate + kLatency + 1);
}

TEST(Simulate, SaysWhichMessagesDoNotMatch) {
  const RankWork send{exchange({to(1, 512)})}, receive{exchange({from(0, 512)})};
  EXPECT_EQ(run({send, {exchange({from(0, 500)})}}, 1).failure,
            "rank 0 sends 512 bytes to rank 1, which receives 500");
  EXPECT_EQ(run({send, {}}, 1).failure, "rank 0 sends rank 1 more than that receives");
  EXPECT_EQ(run({{}, receive}, 1).failure, "rank 1 receives more from rank 0 than that sends");
  EXPECT_EQ(run({{exchange({to(1, 8), to(1, 8)})}, {exchange({from(0, 8)})}}, 1).failure,
            "rank 0 sends rank 1 more than that receives");
  EXPECT_EQ(run({send, {exchange({from(0, 512), from(0, 512)})}}, 1).failure,
            "rank 1 receives more from rank 0 than that sends");
}

TEST(Simulate, SaysWhoWaitsForEver) {
  const auto crossed = [](uint32_t peer) {  // first receives, then sends
    return RankWork{exchange({from(peer, 8)}), exchange({to(peer, 8)}, {0})};
  };
  EXPECT_EQ(run({crossed(1), crossed(0)}, 1).failure, "rank 0 waits for ever in step 0");
}

TEST(Simulate, RanksMeetForCollectivesOfNccl) {
  const RankWork two{{.meeting = 1}, {.after = {0}, .meeting = 2}};
  RankWork late = two;
  late[0].launch = 4;
  EXPECT_DOUBLE_EQ(seconds_of({two, late}, 1), 4 + 1 + 2);
  // One at a time, whatever the steps wait for.
  const RankWork at_once{{.meeting = 1}, {.meeting = 2}};
  EXPECT_DOUBLE_EQ(seconds_of({at_once, at_once}, 1), 3);
  EXPECT_EQ(run({two, {two[0]}}, 1).failure, "rank 0 waits for ever in step 1");
}

TEST(Simulate, NeedsLinksThatTheProfileHas) {
  Profile p = machine();
  p.between.reset();
  EXPECT_THROW(run({{}, {}}, 2, p), std::invalid_argument);
}

TEST(Simulate, LanesFollowTheirOwnSteps) {
  plan::Plan plan;
  plan.steps = {{.name = "a", .lane = plan::Lane::kEncode},
                {.name = "b", .lane = plan::Lane::kCommunicate, .after = {0}},
                {.name = "c", .lane = plan::Lane::kEncode},
                {.name = "d", .lane = plan::Lane::kCommunicate, .turn = 1},
                {.name = "e", .lane = plan::Lane::kCommunicate, .after = {2}}};
  const RankWork work = work_of_plan(machine(), plan, {}, "int8");
  std::vector<std::vector<uint32_t>> after;
  for (const WorkStep& step : work) after.push_back(step.after);
  EXPECT_EQ(after, (std::vector<std::vector<uint32_t>>{{}, {0}, {0}, {}, {2, 1}}));
}

TEST(Simulate, StepsTakeLaunchesMessagesAndCodes) {
  Profile p = machine();
  p.gpu = true;
  p.launch = 1;
  p.message = 8;
  const plan::Compute encode{.inputs = {{{}, plan::Format::kRaw}}, .count = 64};
  plan::Plan plan;
  plan.steps.push_back({.name = "encode", .compute = {33, encode}});
  plan.steps[0].compute.back().target_format = plan::Format::kIntraPacked;  // of another launch
  plan.steps.push_back({.name = "exchange",
                        .lane = plan::Lane::kCommunicate,
                        .transfers = {{1, true, {}, 16}, {1, false, {}, 16}}});
  const RankWork work = work_of_plan(p, plan, {}, "int8");
  EXPECT_DOUBLE_EQ(work[0].launch, 2);
  EXPECT_DOUBLE_EQ(work[0].coding, 33 * 64 / 0x1p12);
  EXPECT_DOUBLE_EQ(work[1].launch, 1 + 2 * 8);
  EXPECT_DOUBLE_EQ(work[1].coding, 0);
}

// A byte an element; on a shared grid one parameter for each 64.
plan::Packing packing_for(const plan::Algorithm& algorithm) {
  const auto code_bytes = [](size_t n) { return n; };
  plan::Packing packing{64, code_bytes};
  packing.codes = code_bytes;
  if (algorithm.sharing == plan::Sharing::kNone) return packing;
  packing.bytes = [](size_t n) { return n + n / 16; };
  packing.shared_grid = plan::SharedGrid{code_bytes, plan::Element::kUint32, algorithm.sharing};
  return packing;
}

Shape shape_for(const plan::Algorithm& algorithm, int ranks, int nodes, size_t count,
                size_t chunk_bytes, int pods = 1) {
  return {.count = count,
          .ranks = ranks,
          .root = ranks / 2,
          .chunk_policy = plan::exact_chunks(chunk_bytes),
          .packing = packing_for(algorithm),
          .topology = plan::even_topology(ranks, nodes, pods)};
}

bool serves(const plan::Algorithm& algorithm, const Shape& s) {
  return !plan::is_point_to_point(algorithm.collective) &&
         plan::is_for(algorithm, algorithm.collective, s) &&
         algorithm.applies(s, *plan::find_algo(algorithm.names.own)).applies;
}

std::string name_of(const plan::Algorithm& algorithm, const Shape& s) {
  return std::string(algorithm.names.own) + " " + plan::name(algorithm.collective) + " of " +
         std::to_string(s.ranks) + " ranks on " + std::to_string(s.topology.nodes());
}

// Most bytes that leave a node, of its ranks.
size_t most_off_node(const std::vector<Traffic>& sent, const plan::Topology& t) {
  std::vector<size_t> by_node(t.size.size());
  for (size_t rank = 0; rank < sent.size(); ++rank) by_node[t.node[rank]] += sent[rank].off_node;
  return std::ranges::max(by_node);
}

// To their end, and with their own bytes.
TEST(Simulate, AllPlansComeToTheirEnd) {
  struct Ranks {
    int ranks, nodes, pods = 1;
  };
  size_t simulated = 0, in_groups = 0;
  for (const plan::Algorithm& algorithm : plan::algorithms())
    for (const auto& [ranks, nodes, pods] :
         {Ranks{4, 1}, {5, 1}, {8, 4}, {24, 12}, {64, 32}, {32, 16, 4}})
      for (const size_t count : {size_t{1}, size_t{5003}})
        for (const size_t chunk_bytes : {size_t{1} << 12, size_t{1} << 30}) {
          Shape s = shape_for(algorithm, ranks, nodes, count, chunk_bytes, pods);
          if (!serves(algorithm, s)) continue;
          SCOPED_TRACE(name_of(algorithm, s));
          const Simulation simulation = simulate(machine(), algorithm, s, "int8");
          ASSERT_EQ(simulation.failure, "");
          std::vector<Traffic> sent;
          Traffic sum;
          for (s.rank = 0; s.rank < ranks; ++s.rank) {
            sent.push_back(plan::traffic_to(algorithm.build(s).wire_to, s.rank, s.topology));
            sum += sent.back();
          }
          EXPECT_EQ(simulation.sent, sum);
          ++simulated;
          in_groups += algorithm.groups ? 1 : 0;
          if (algorithm.sharing != plan::Sharing::kNone) continue;  // NCCL sends the rest
          EXPECT_EQ(most_off_node(sent, s.topology),
                    plan::link_of(algorithm, s).compressed.off_node);
        }
  EXPECT_GT(simulated, 200u);
  EXPECT_GT(in_groups, 20u);
}

// Where all ranks do the same.
TEST(Simulate, AgreesWithThePredictionOfEvenCalls) {
  size_t compared = 0;
  for (const plan::Algorithm& algorithm : plan::algorithms())
    for (const auto& [ranks, nodes] : {std::pair{4, 1}, {16, 1}, {8, 8}, {16, 4}, {64, 32}}) {
      const Shape s = shape_for(algorithm, ranks, nodes, size_t{1} << 16, size_t{1} << 40);
      if (plan::traits(algorithm.collective).rooted || !serves(algorithm, s)) continue;
      const double simulated = simulate(machine(), algorithm, s, "int8").seconds,
                   predicted = estimate(machine(), algorithm, s, "int8").seconds;
      EXPECT_NEAR(simulated / predicted, 1, 0.15) << name_of(algorithm, s);
      ++compared;
    }
  EXPECT_GT(compared, 15u);
}

}  // namespace
}  // namespace terse::model
