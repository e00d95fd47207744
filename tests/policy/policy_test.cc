#include "policy/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "error_of.h"
#include "terse/terse.h"

namespace terse {
namespace {

using plan::Collective;

constexpr size_t kFloor = 64 * 1024;

Policy parse(std::string_view line, Floor floor = kFloor) { return parse_policy_line(line, floor); }

// "2: int4" for the rule with that number and its codec, or why not.
std::string decide(const Policy& policy, const Facts& facts) {
  const Decision d = policy.decide(facts);
  const std::string rule =
      d.rule == kNoRule ? "none" : fmt::format("{}", policy.rules.at(d.rule).number);
  if (d.scheme == nullptr)
    return fmt::format("{}: {}", rule, d.bypass == TERSE_BYPASS_SMALL ? "small" : "off");
  const std::string scheme = print_scheme(*d.scheme);
  return fmt::format("{}: {}", rule, scheme.substr(0, scheme.find(':')));
}

constexpr int kRanks = 4;

Facts call(Collective collective, size_t bytes) {
  return {.collective = collective, .bytes = bytes, .ranks = kRanks};
}

TEST(Policy, ABareSchemeMeansTheThreeCollectivesFromTheFloorOn) {
  const Policy p = parse("int8");
  ASSERT_EQ(p.rules.size(), 1u);
  EXPECT_EQ(p.rules[0].scheme, parse_scheme("int8"));
  for (const Collective c :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
    const size_t least = kFloor * plan::shards(c, kRanks);  // of a shard, where there are some
    EXPECT_EQ(decide(p, call(c, least)), "1: int8");
    EXPECT_EQ(decide(p, call(c, least - 4)), "none: small");
  }
  EXPECT_EQ(decide(parse("int8", 1), call(Collective::kAllReduce, 1)), "1: int8");
  EXPECT_EQ(decide(parse("int8", 0), call(Collective::kAllReduce, 0)), "1: int8");
  EXPECT_EQ(decide(parse("off"), call(Collective::kAllReduce, kFloor)), "1: off");
  EXPECT_EQ(decide(Policy{}, call(Collective::kAllReduce, kFloor)), "none: off");
}

// Where no floor is set: on hosts of a shard, on GPUs of the whole message, by the ranks.
TEST(Policy, WithoutAFloorSizesAreUsualOnes) {
  const Policy p = parse("int8", std::nullopt);
  EXPECT_EQ(p.print(), "bytes=usual.. -> int8:block=128,round=nearest");
  EXPECT_EQ(parse(p.print(), 7).rules, p.rules);
  EXPECT_EQ(parse("bytes=usual.. -> int8").rules, p.rules);
  Facts fused{.collective = Collective::kAllReduce, .bytes = 64 << 10, .ranks = 4, .gpu = true};
  EXPECT_EQ(p.decide(fused).scheme, nullptr);
  fused.fused_from = 64 << 10;
  EXPECT_NE(p.decide(fused).scheme, nullptr) << "fused calls gain";
  fused.bytes -= 4;
  EXPECT_EQ(p.decide(fused).scheme, nullptr);
  const struct {
    bool gpu;
    int ranks;
    Collective collective;
    size_t least;
  } cases[] = {
      {false, 4, Collective::kAllReduce, 64 << 10}, {false, 4, Collective::kAllGather, 256 << 10},
      {true, 4, Collective::kAllReduce, 8 << 20},   {true, 4, Collective::kAllGather, 8 << 20},
      {true, 256, Collective::kAllReduce, 8 << 20}, {true, 1024, Collective::kAllReduce, 32 << 20},
  };
  for (const auto& c : cases) {
    Facts f{.collective = c.collective, .bytes = c.least, .ranks = c.ranks, .gpu = c.gpu};
    EXPECT_EQ(decide(p, f), "1: int8") << c.least;
    f.bytes -= 4;
    EXPECT_EQ(decide(p, f), "none: small") << c.least;
    EXPECT_EQ(decide(parse("bytes=1.. -> int8", std::nullopt), f), "1: int8");
    EXPECT_EQ(decide(parse("shard=1.. -> int8", std::nullopt), f), "1: int8");
  }
}

// Also where a rule has a largest size, or `auto` finds the smallest one itself.
TEST(Policy, WithoutAFloorOtherRulesBeginAtSixtyFourKibibytes) {
  EXPECT_EQ(parse("bytes=..1M -> int8", std::nullopt).print(),
            "bytes=..1M shard=64K.. -> int8:block=128,round=nearest");
  EXPECT_EQ(parse("auto", std::nullopt).print(), parse("auto").print());
  EXPECT_EQ(parse("off", std::nullopt).print(), "off");
  EXPECT_EQ(decide(parse("int8; bytes=..1M -> int4", std::nullopt),
                   {.collective = Collective::kAllReduce, .bytes = 1 << 20, .gpu = true}),
            "2: int4");
}

TEST(Policy, OnlyRulesThatNameThemAreAboutOtherCollectives) {
  const Set implied = parse("int8").rules[0].match.collectives;
  for (const CollectiveName& c : collective_names()) {
    EXPECT_EQ((implied & set_of(c.collective)) != 0, c.by_default) << c.name;
    const Policy named = parse(fmt::format("{} -> int8", c.name));
    EXPECT_EQ(decide(named, call(c.collective, kRanks * kFloor)), "1: int8") << c.name;
    const Policy off = parse("off; " + fmt::format("{} -> int8", c.name));
    EXPECT_EQ(decide(off, call(c.collective, kFloor)), "1: off") << "off is about all";
  }
}

TEST(Policy, TheFirstRuleThatMatchesWins) {
  const Policy p = parse("allgather -> off; bytes=1M.. -> int4; allreduce -> int8; minmax8");
  EXPECT_EQ(decide(p, call(Collective::kAllGather, 1 << 20)), "1: off");
  EXPECT_EQ(decide(p, call(Collective::kAllGather, 1)), "1: off") << "off has no floor";
  EXPECT_EQ(decide(p, call(Collective::kAllReduce, 1 << 20)), "2: int4");
  EXPECT_EQ(decide(p, call(Collective::kAllReduce, (1 << 20) - 1)), "3: int8");
  EXPECT_EQ(decide(p, call(Collective::kReduceScatter, (1 << 20) - 1)), "4: minmax8");
  EXPECT_EQ(decide(p, call(Collective::kReduceScatter, kFloor - 1)), "none: small");
}

TEST(Policy, ARuleMayAskForShards) {
  const Policy p = parse("shard=1K..2K -> int4");
  EXPECT_EQ(decide(p, call(Collective::kAllGather, 4 << 10)), "1: int4");
  EXPECT_EQ(decide(p, call(Collective::kAllGather, (4 << 10) - 4)), "none: small");
  EXPECT_EQ(decide(p, call(Collective::kAllGather, (8 << 10) + 4)), "none: off");
  EXPECT_EQ(decide(p, call(Collective::kAllReduce, 1 << 10)), "1: int4") << "it is one shard";
  EXPECT_EQ(p.print(), "shard=1K..2K -> int4:block=128,round=nearest");
  EXPECT_EQ(parse(p.print()).rules, p.rules);
  EXPECT_TRUE(parse("shard=1K.. -> int4; shard=2K.. -> int8").warnings().size() == 1);
  EXPECT_TRUE(parse("shard=2K.. -> int4; shard=1K.. -> int8").warnings().empty());
}

TEST(Policy, ARuleThatNamesTheSmallestSizeHasNoOtherFloor) {
  EXPECT_EQ(decide(parse("bytes=1.. -> int4"), call(Collective::kAllReduce, 1)), "1: int4");
  EXPECT_EQ(decide(parse("bytes=0..1M -> int4"), call(Collective::kAllReduce, 0)), "1: int4");
  EXPECT_EQ(decide(parse("shard=0..1M -> int4"), call(Collective::kAllReduce, 0)), "1: int4");
  EXPECT_EQ(decide(parse("bytes=0..1M -> int4"), call(Collective::kAllReduce, (1 << 20) + 1)),
            "none: off")
      << "too large is not small";
}

// Counts of tokens, and sums of losses, are small.
TEST(Policy, AnUpperLimitAloneLeavesTheFloor) {
  for (const char* line : {"bytes=..1M -> int4", "shard=..1M -> int4"}) {
    EXPECT_EQ(decide(parse(line), call(Collective::kAllReduce, kFloor)), "1: int4") << line;
    EXPECT_EQ(decide(parse(line), call(Collective::kAllReduce, kFloor - 1)), "none: small") << line;
  }
  EXPECT_EQ(decide(parse("bytes=..1M -> off; int4"), call(Collective::kAllReduce, 1)), "1: off");
  EXPECT_EQ(error_of([] { parse("bytes=..10 -> int4"); }),
            "column 15: of up to 10 no message has a shard of 64K or more; 0..10 takes small ones, "
            "too");
  EXPECT_THROW(parse("shard=..10 -> int4"), Error);
  EXPECT_NO_THROW(parse("shard=..10 -> off"));
}

// What no rule would compress at any size is not too small for one.
TEST(Policy, SmallIsWhatARuleWouldCompressWereItLarger) {
  const Facts small = call(Collective::kAllReduce, 1000);
  EXPECT_EQ(decide(parse("bytes=1M.. -> int8"), small), "none: small");
  EXPECT_EQ(decide(parse("bytes=1M.. -> off"), small), "none: off");
  EXPECT_EQ(decide(parse("allgather bytes=1M.. -> int8"), small), "none: off");
  EXPECT_EQ(decide(parse("bytes=0..10 -> int8"), small), "none: off");
}

TEST(Policy, GoesByEveryFact) {
  Facts f = call(Collective::kAllReduce, 1 << 20);
  f.dtype = ncclBfloat16;
  f.op = ncclAvg;
  f.ranks = 16;
  f.nodes = 2;
  f.name = "dp-3";
  f.tag = 0x8000000000000001;
  for (const char* condition : {"dtype=bf16", "dtype=float32,bfloat16", "op=avg", "op=sum,avg",
                                "ranks=16", "ranks=9..", "nodes=2..", "nodes=..2", "name=dp-?",
                                "tag=9223372036854775809", "tag=0x8000000000000001", "tag=1.."})
    EXPECT_EQ(decide(parse(fmt::format("{} -> int4; int8", condition)), f), "1: int4") << condition;
  for (const char* condition : {"dtype=fp32,fp16", "op=sum", "ranks=17..", "ranks=..15", "nodes=1",
                                "nodes=3..", "name=tp*", "name=dp", "tag=0", "tag=2..0xff"})
    EXPECT_EQ(decide(parse(fmt::format("{} -> int4; int8", condition)), f), "2: int8") << condition;
}

TEST(Policy, ACallWithoutATagHasTag0) {
  const Facts f = call(Collective::kAllReduce, 1 << 20);
  EXPECT_EQ(decide(parse("tag=1.. -> int4; tag=0 -> int8"), f), "2: int8");
}

TEST(Policy, KnowsWhatItAsksFor) {
  EXPECT_FALSE(parse("int8").asks_nodes());
  EXPECT_TRUE(parse("int8; nodes=2.. -> int4").asks_nodes());
  EXPECT_TRUE(parse("safe").asks_nodes()) << "a preset gains or not by the nodes";
  EXPECT_FALSE(parse("nodes=2.. -> int4").asks_name());
  EXPECT_TRUE(parse("off; name=dp -> int8").asks_name());
  EXPECT_FALSE(parse("name=* nodes=0.. -> int8").asks_name()) << "any name, and none";
  EXPECT_FALSE(parse("name=* nodes=0.. -> int8").asks_nodes());
}

TEST(Policy, KnowsWhetherACallTurnsOnTheNumberOfNodes) {
  const Facts large = call(Collective::kAllReduce, 1 << 20);
  const Facts small = call(Collective::kAllReduce, 1 << 10);
  const Facts message = call(Collective::kSend, 1 << 20);
  const auto turns = [](const char* line, Facts facts, int ranks = 8) {
    facts.ranks = ranks;
    return parse(line).turns_on_nodes(facts);
  };
  EXPECT_FALSE(turns("int8", large));
  EXPECT_TRUE(turns("nodes=2.. -> int8", large));
  EXPECT_TRUE(turns("nodes=1 -> int8", large));
  EXPECT_TRUE(turns("nodes=3..5 -> off; int8", large));
  EXPECT_FALSE(turns("nodes=2.. -> int8", small)) << "native on any";
  EXPECT_FALSE(turns("nodes=2.. -> int8", message)) << "of which no rule speaks";
  EXPECT_FALSE(turns("nodes=2.. -> off", message));
  EXPECT_TRUE(turns("sendrecv nodes=2.. -> int8", message));
  EXPECT_FALSE(turns("int8; nodes=2.. -> int4", large)) << "decided before";
  EXPECT_FALSE(turns("nodes=9.. -> int8", large)) << "more than ranks";
  EXPECT_TRUE(turns("nodes=9.. -> int8", large, 9));
  EXPECT_TRUE(turns("nodes=1.. -> off; int8", large)) << "on any number, but it must be known";
  EXPECT_FALSE(turns("nodes=2.. name=dp -> int8", large)) << "of another communicator";
}

TEST(Policy, KnowsWhetherItCompresses) {
  EXPECT_FALSE(parse("off; allreduce -> off").compresses());
  EXPECT_TRUE(parse("allreduce -> off; int8").compresses());
  EXPECT_FALSE(Policy{}.compresses());
}

TEST(Policy, PrintsWhatIsImplied) {
  const struct {
    const char *line, *print;
  } cases[] = {
      {"int8", "shard=64K.. -> int8:block=128,round=nearest"},
      {"off", "off"},
      // Of a preset's parts those that the condition can be of.
      {"op=sum -> qsdp",
       "allreduce,reducescatter op=sum shard=64K.. -> minmax8:block=1024,round=stochastic"},
      {"bytes=0.. -> int8", "bytes=0.. -> int8:block=128,round=nearest"},
      {"  allgather , -> off", nullptr},
      {"collective=reducescatter,allreduce op=avg,sum dtype=bf16,fp32 ->int4:block=64;off",
       "allreduce,reducescatter dtype=float32,bfloat16 op=sum,avg shard=64K.. -> "
       "int4:block=64,round=nearest; off"},
      {"ranks=8..8 nodes=2.. bytes=..1000 name=\"a b\" -> off",
       "bytes=..1000 ranks=8 nodes=2.. name=\"a b\" -> off"},
      {"name=\"d*\" -> off", "name=d* -> off"},
      {"name=** -> off", "off"},
      {"name=\"\\\"\\\\->;\" -> off", "name=\"\\\"\\\\->;\" -> off"},
      {"tag=0x10..0x1f name=a -> off", "name=a tag=16..31 -> off"},
      {"tag=0.. -> off", "off"},
      {"bytes=1025 -> int2", "bytes=1025 -> int2:block=128,round=nearest"},
      {"bytes=0..7 -> int2", "bytes=0..7 -> int2:block=128,round=nearest"},
      {"bytes=..1M -> int2", "bytes=..1M shard=64K.. -> int2:block=128,round=nearest"},
      {"shard=..1M -> int2", "shard=64K..1M -> int2:block=128,round=nearest"},
      {"shard=0..1M -> int2", "shard=0..1M -> int2:block=128,round=nearest"},
      {"bytes=2048..3G -> int2", "bytes=2K..3G -> int2:block=128,round=nearest"},
  };
  for (const auto& c : cases) {
    if (c.print == nullptr) {
      EXPECT_THROW(parse(c.line), Error) << c.line;
      continue;
    }
    const Policy p = parse(c.line);
    EXPECT_EQ(p.print(), c.print);
    EXPECT_EQ(parse(p.print(), 7).rules, p.rules) << "whatever the floor: " << c.line;
  }
}

// Lines with and without each condition, in any order.
TEST(Policy, EveryPolicyPrintsToALineThatParsesBack) {
  std::mt19937 random(1);
  const std::vector<std::string> conditions[] = {
      {"", "allreduce", "allgather,allreduce", "collective=reducescatter"},
      {"", "dtype=fp16", "dtype=bf16,float32"},
      {"", "bytes=1..", "bytes=usual..", "bytes=3K..1M", "bytes=..70K", "shard=..70K", "bytes=0..7",
       "bytes=0..18446744073709551615"},
      {"", "ranks=2", "ranks=2..8"},
      {"", "nodes=1", "nodes=2.."},
      {"", "name=dp*", "name=\"a \\\"b\\\" ; -> c\"", "name=a\\b", "name=x=y"},
      {"", "tag=7", "tag=0x10..", "tag=0"}};
  const char* schemes[] = {"int8", "off", "safe", "cgx", "minmax4:round=shift,seed=3"};
  const auto pick = [&](const auto& list) { return std::string(list[random() % std::size(list)]); };
  for (int i = 0; i < 2000; ++i) {
    std::string line;
    for (unsigned rules = 1 + random() % 4; rules > 0; --rules) {
      std::vector<std::string> chosen;
      for (const auto& values : conditions)
        if (std::string value = pick(values); !value.empty()) chosen.push_back(value);
      std::ranges::shuffle(chosen, random);
      if (!line.empty()) line += ';';
      for (const std::string& condition : chosen) line += condition + "\t ";
      line += (chosen.empty() ? "" : "-> ") + pick(schemes);
    }
    const Policy p = parse(line, random() % 4 == 0 ? Floor{} : random() % 3 * 1000);
    const Policy again = parse(p.print(), 5);
    EXPECT_EQ(again.rules, p.rules) << line;
    EXPECT_EQ(again.print(), p.print()) << line;
  }
}

TEST(Policy, WarnsOfRulesThatNoCallReaches) {
  const struct {
    const char *line, *warning;
  } cases[] = {
      {"int8; int4", "rule 2 is never reached: rule 1 takes all of its calls"},
      {"off; allreduce bytes=1.. name=a -> int8",
       "rule 2 is never reached: rule 1 takes all of its calls"},
      {"nodes=2.. -> int4; nodes=1 -> int8; nodes=3 ranks=4 -> int2",
       "rule 3 is never reached: rule 1 takes all of its calls"},
      {"int8; allgather,allreduce -> safe",
       "rule 2 is never reached: rule 1 takes all of its calls"},
      {"tag=1..9 -> int8; tag=9 -> int4", "rule 2 is never reached: rule 1 takes all of its calls"},
      {"tag=1..9 -> int8; tag=9.. -> int4", ""},
      {"tag=1..9 -> int8; tag=10 -> off", ""},
      {"allgather -> int8; safe", ""},
      {"safe; int8", ""},  // needs both of rule 1's parts: not seen
      {"allreduce -> int8; allgather -> int8; int4", ""},
      {"int8; bytes=1.. -> int4", ""},
      {"bytes=usual.. -> int8; bytes=1.. -> int4", ""},
      {"bytes=usual.. -> int8; shard=1G.. -> int4", ""},  // usual sizes are not compared
      {"bytes=usual.. -> int8; bytes=usual.. dtype=fp16 -> int4",
       "rule 2 is never reached: rule 1 takes all of its calls"},
      {"bytes=usual.. -> int8; bytes=..4K -> off", ""},
      {"name=dp* -> int8; name=dp1 -> int4", ""},  // patterns are not compared
      {"allgather -> linear8",
       "rule 1 compresses nothing: linear8:block=256,round=stochastic is for other collectives"},
      {"int8; allreduce,sendrecv bytes=1.. -> int4:delta=inplace",
       "rule 2 compresses nothing: int4:block=128,round=nearest,delta=inplace is for other "
       "collectives"},
      {"allreduce -> linear8; allgather -> int8:delta=inplace; auto:bits=8", ""},
      {"allgather dtype=fp32 -> safe; int8",
       "rule 1 compresses nothing: the preset safe leaves AllGather in fp32 native, and "
       "safe-fsdp32 "
       "compresses it"},
      {"broadcast -> cgx", "rule 1 compresses nothing: the preset cgx leaves its calls native"},
      {"linear8; allgather -> off", ""},  // of its three one is enough
      {"int4; allgather -> off",
       "rule 2 leaves no call native that rule 1 compresses: of two the first counts, so it has to "
       "come before that"},
      {"safe; nodes=1 -> off",
       "rule 2 leaves no call native that rule 1 compresses: of two the first counts, so it has to "
       "come before that"},
      {"name=dp* -> int8; name=dp1 -> off",
       "rule 2 leaves no call native that rule 1 compresses: of two the first counts, so it has to "
       "come before that"},
      {"int4; name=tp* -> off; bytes=..1M -> int8",
       "rule 3 is never reached: rule 1 takes all of its calls"
       "rule 2 leaves no call native that rule 1 compresses: of two the first counts, so it has to "
       "come before that"},
      {"bytes=0.. -> int8; allgather -> off",
       "rule 2 is never reached: rule 1 takes all of its calls"},
      {"int8; off", ""},
      {"int8; bytes=..4K -> off", ""},  // below rule 1's floor
      {"name=dp1 -> int8; name=tp* -> off", ""},
      {"allreduce -> int8; allgather -> off", ""},
      {"dtype=float32 -> int8; dtype=float16 -> off; ranks=2..4 -> off; nodes=2 -> int4", ""},
      {"allreduce -> int8; name=tp* -> off; int4", ""},  // of allgather it does
  };
  for (const auto& c : cases) {
    std::string warnings;
    for (const std::string& line : parse(c.line).warnings()) warnings += line;
    EXPECT_EQ(warnings, c.warning) << c.line;
  }
}

}  // namespace
}  // namespace terse
