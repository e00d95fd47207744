// Number of levels of a call, by a profile: the table's, or the one that is predicted to be faster.
#include <gtest/gtest.h>

#include "engine/comm/comm_routing.h"
#include "policy/profile_file.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr Prospect kCall{Collective::kAllReduce, size_t{64} << 20, codec::Dtype::kBfloat16, 1024};

// Plan of a call in int4, which names no algorithm.
PlanPointer plan_of(CommRouting& routing, Collective collective, int root, size_t count) {
  return routing.plans().of({.collective = collective,
                             .root = root,
                             .count = count,
                             .dtype = codec::Dtype::kBfloat16,
                             .forms = {parse_scheme("int4").spec},
                             .algorithm = {},
                             .delta = {},
                             .verified = false,
                             .learns = false});
}

std::string name_of(const model::Profile* profile, const char* scheme, const Prospect& call,
                    const plan::Topology& topology) {
  const Machines machines{plan::kGpuChunks, topology};
  const Scheme own = parse_scheme(scheme);
  return std::string(plan::name(algorithm_by(profile, own, call, machines)));
}

// Latency decides for few levels, as many cost rounds; and what a message costs for many.
TEST(NumberOfLevels, IsByWhatTheLinksCost) {
  model::Profile slow = read_profile("h800-8x-3200gbit"), messages = slow;
  slow.between->latency = 1e-2;
  messages.message = 1e-3;
  const plan::Topology t = plan::even_topology(1024, 128);
  EXPECT_EQ(name_of(&slow, "int4", kCall, t), "hierarchical");
  EXPECT_EQ(name_of(&messages, "int4", kCall, t), "multilevel") << "as the table has it";
  const plan::Topology few = plan::even_topology(128, 16);
  Prospect call = kCall;
  call.ranks = 128;
  call.count = size_t{1} << 20;
  EXPECT_EQ(name_of(&messages, "int4", call, few), "multilevel");
  EXPECT_EQ(name_of(&slow, "int4", call, few), "hierarchical");
}

TEST(NumberOfLevels, IsTheSchemesIfItNamesOne) {
  model::Profile slow = read_profile("h800-8x-3200gbit");
  slow.between->latency = 1e-2;
  const plan::Topology t = plan::even_topology(1024, 128);
  EXPECT_EQ(name_of(&slow, "int4:algo=multilevel", kCall, t), "multilevel");
  EXPECT_EQ(name_of(nullptr, "int4", kCall, t), "auto") << "nothing is known";
}

// A profile without links between pods does not know what it is that pods save.
TEST(NumberOfLevels, IsOfPodsUnlessTheProfileKnowsTheirLinks) {
  model::Profile slow = read_profile("h800-8x-3200gbit"), narrow = slow;
  slow.between->latency = 1e-2;
  const plan::Topology t = plan::even_topology(1024, 128, 8);
  EXPECT_EQ(name_of(&slow, "int4", kCall, t), "auto");
  slow.pods = slow.between;
  EXPECT_EQ(name_of(&slow, "int4", kCall, t), "hierarchical");
  narrow.pods = model::Link{1e-2, slow.between->bandwidth / 16};
  EXPECT_EQ(name_of(&narrow, "int4", kCall, t), "multilevel") << "less crosses between pods";
}

// A profile that has measured such calls says nothing of another number of levels.
TEST(NumberOfLevels, IsTheTablesWhereCallsWereMeasured) {
  model::Profile slow = read_profile("h800-8x-3200gbit");
  slow.between->latency = 1e-2;
  slow.measured.push_back({.collective = Collective::kAllReduce,
                           .dtype = codec::Dtype::kBfloat16,
                           .ranks = 1024,
                           .nodes = 128,
                           .scheme = "native",
                           .points = {{1 << 20, 1.0}}});
  EXPECT_EQ(name_of(&slow, "int4", kCall, plan::even_topology(1024, 128)), "auto");
}

// All ranks take the same algorithm, mark the same calls as slow, and ask for as much scratch,
// whatever the root and the map of ranks to nodes.
TEST(NumberOfLevels, IsTheSameOnAllRanks) {
  const model::Profile own = read_profile("h800-8x-3200gbit");
  std::vector<uint64_t> in_turn, unlike;
  for (uint64_t rank = 0; rank < 32; ++rank) {
    in_turn.push_back(rank % 16);
    unlike.push_back(rank < 3 ? 0 : rank / 2);
  }
  for (const plan::Topology& t : {plan::topology_of(in_turn), plan::topology_of(unlike)})
    for (const Collective c : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast,
                               Collective::kReduceScatter, Collective::kAllGather})
      for (const size_t count : {size_t{1000}, (size_t{2} << 20) + 5}) {
        std::vector<PlanPointer> plans;
        for (int rank = 0; rank < 32; ++rank) {
          CommRouting routing(rank, 32, plan::kGpuChunks, {});
          routing.plans().learn(t);
          routing.learn({}, &own);
          plans.push_back(plan_of(routing, c, 13, count));
          EXPECT_STREQ(plans[rank]->algorithm, plans[0]->algorithm);
          EXPECT_EQ(plans[rank]->is_slow, plans[0]->is_slow);
          EXPECT_EQ(plans[rank]->max_scratch_bytes, plans[0]->max_scratch_bytes)
              << plans[0]->algorithm << ", rank " << rank;
        }
      }
}

// Plans go by it, whatever the machine, the size and the number of nodes; by 3 % at most.
TEST(NumberOfLevels, IsThatOfThePlanAndNearlyTheFastest) {
  size_t two = 0, many = 0;
  for (const KnownProfile& known : known_profiles()) {
    const model::Profile own = parse_profile(known.text, std::string(known.name));
    if (!own.between || own.max_nodes != 0) continue;
    for (const int nodes : {16, 24, 64, 256}) {
      const int ranks = nodes * own.node_ranks;
      CommRouting routing(0, ranks, plan::kGpuChunks, {});
      routing.plans().learn(plan::even_topology(ranks, nodes));
      routing.learn({}, &own);
      for (size_t count = 1 << 19; count <= size_t{1} << 31; count <<= 4) {
        const auto plan = plan_of(routing, Collective::kAllReduce, 0, count);
        const bool is_many = std::string_view(plan->algorithm).starts_with("multilevel");
        const Prospect call{Collective::kAllReduce, count, codec::Dtype::kBfloat16, ranks};
        const auto seconds = [&](bool of_many) {
          const Scheme scheme =
              parse_scheme(of_many ? "int4:algo=multilevel" : "int4:algo=hierarchical");
          return *predict_as_called(own, scheme, call, routing.machines())->seconds;
        };
        EXPECT_LE(0.97 * seconds(is_many), seconds(!is_many))
            << own.name << ", " << nodes << " nodes, " << count << ": " << plan->algorithm;
        ++(is_many ? many : two);
      }
    }
  }
  EXPECT_GT(two, 20u);
  EXPECT_GT(many, 20u);
}

}  // namespace
}  // namespace terse::test
