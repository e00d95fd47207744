// The grammar of a policy on one line: what it refuses, and where it says so.
#include <gtest/gtest.h>

#include "error_of.h"
#include "policy/policy.h"

namespace terse {
namespace {

std::string error_of(std::string_view line) {
  return terse::error_of([&] { parse_policy_line(line, 0); });
}

TEST(PolicyLine, ErrorsSayWhere) {
  const struct {
    const char *line, *error;
  } cases[] = {
      {"", "column 1: a rule is missing"},
      {"  ", "column 3: a rule is missing"},
      {"int8;", "column 6: a rule is missing"},
      {"int8;; int4", "column 6: a rule is missing"},
      {"-> int8", "column 1: conditions are missing before \"->\""},
      {"allreduce ->", "column 13: a scheme is missing after \"->\""},
      {"allreduce -> ; int8", "column 14: a scheme is missing after \"->\""},
      {"allreduce -> int8 int4", "column 19: \"int4\" after the scheme"},
      {"allreduce -> int8 -> int4", "column 19: a second \"->\" in one rule"},
      {"allreduce int8", "column 11: \"->\" is missing between the conditions and the scheme"},
      {"int8; allreduce btyes=1M.. -> int4",
       "column 17: unknown key \"btyes\"; did you mean \"bytes\"?"},
      {"x=1 -> int4",
       "column 1: unknown key \"x\"; known are collective, dtype, op, bytes, shard, ranks, nodes, "
       "name and tag"},
      {"=1 -> int4",
       "column 1: unknown key \"\"; known are collective, dtype, op, bytes, shard, ranks, nodes, "
       "name and tag"},
      {"scheme=int8 -> int4",
       "column 1: unknown key \"scheme\"; known are collective, dtype, op, "
       "bytes, shard, ranks, nodes, name and tag"},
      {"bytes=1.. bytes=2.. -> int4", "column 11: bytes is given twice"},
      {"allreduce collective=allgather -> int4", "column 11: collective is given twice"},
      {"allreduce,allreduce -> int4", "column 11: \"allreduce\" is given twice"},
      {"dtype=fp32,float32 -> int4", "column 12: \"float32\" is given twice"},
      {"allreduce,algather -> int4",
       "column 11: unknown collective \"algather\"; did you mean \"allgather\"?"},
      {"dtype=bf16,flaot32 -> int4",
       "column 12: unknown dtype \"flaot32\"; did you mean \"float32\"?"},
      {"dtype=int32 -> int4", "column 7: dtype \"int32\": integers are never compressed lossily"},
      {"dtype=uint8 -> off", "column 7: dtype \"uint8\": integers are never compressed lossily"},
      {"dtype=double -> int4",
       "column 7: dtype \"double\" is not compressed, only float32, float16 "
       "and bfloat16 are"},
      {"op=max -> int4", "column 4: op \"max\" is not compressed, only sum, avg and premulsum are"},
      {"op=summ -> int4", "column 4: unknown op \"summ\"; did you mean \"sum\"?"},
      {"allgather op=sum -> int4",
       "column 21: op is for collectives that reduce, and allgather does not"},
      {"bytes=1T.. -> int4", "column 7: \"1T..\" is not a range such as 64K..1M or 1M.."},
      {"bytes= -> int4", "column 7: \"\" is not a range such as 64K..1M or 1M.."},
      {"bytes=.. -> int4", "column 7: \"..\" is not a range such as 64K..1M or 1M.."},
      {"bytes=1..2..3 -> int4", "column 7: \"1..2..3\" is not a range such as 64K..1M or 1M.."},
      {"bytes=2..1 -> int4", "column 7: the range \"2..1\" is empty: it begins after its end"},
      {"bytes=18446744073709551616 -> int4",
       "column 7: \"18446744073709551616\" is not a range such as 64K..1M or 1M.."},
      {"ranks=1K -> int4", "column 7: \"1K\" is not a range such as 2..8 or 16.."},
      {"nodes=-1 -> int4", "column 7: \"-1\" is not a range such as 1 or 2.."},
      {"ranks=0 -> int4", "column 7: no call is of 0"},
      {"nodes=..0 -> int4", "column 7: no call is of 0"},
      {"tag=a -> int4", "column 5: \"a\" is not a range such as 7 or 0x100..0x1ff"},
      {"tag=0x -> int4", "column 5: \"0x\" is not a range such as 7 or 0x100..0x1ff"},
      {"tag=0xg -> int4", "column 5: \"0xg\" is not a range such as 7 or 0x100..0x1ff"},
      {"tag=-1 -> int4", "column 5: \"-1\" is not a range such as 7 or 0x100..0x1ff"},
      {"tag=0x10000000000000000 -> int4",
       "column 5: \"0x10000000000000000\" is not a range such as 7 or 0x100..0x1ff"},
      {"tag=9..0x8 -> int4", "column 5: the range \"9..0x8\" is empty: it begins after its end"},
      {"name= -> int4", "column 6: the name is empty; leave it out for any name"},
      {"name=\"a -> int4", "column 6: a closing quote is missing"},
      {"name=\"a\\\" -> int4", "column 6: a closing quote is missing"},
      {"name=\"a\"b -> int4", "column 6: \"b\" after the closing quote"},
      {"name=a\"b\" -> int4", "column 6: a quote within \"a\"b\"\", which does not begin with one"},
      {"name=a\x01 -> int4", "column 6: the name has a control character"},
      {"allreduce -> itn8",
       "column 14: scheme \"itn8\": unknown codec \"itn8\"; known are off, auto, int2 "
       "to int8, minmax2 to minmax8, bf16, fp16, fp8e4m3, fp8e5m2, mxfp8, mxfp6, mxfp4, nvfp4, "
       "linear8, linear16, exp8 and learned2 to learned8; did you mean \"int8\"?"},
      {"saef",
       "column 1: scheme \"saef\": unknown codec \"saef\"; known are off, auto, int2 to int8, "
       "minmax2 to minmax8, bf16, fp16, fp8e4m3, fp8e5m2, mxfp8, mxfp6, mxfp4, nvfp4, "
       "linear8, linear16, exp8 and learned2 to learned8; did you mean \"safe\"?"},
      {"safe:seed=1", "column 1: the preset \"safe\" takes no options"},
      {"int8; int4:blok=64",
       "column 7: scheme \"int4:blok=64\": unknown key \"blok\"; known are block, round, scale, "
       "fit, hadamard, intra, outer, second, second-round, delta, every, own, learn, seed and "
       "algo; did "
       "you mean \"block\"?"},
  };
  for (const auto& c : cases) EXPECT_EQ(error_of(c.line), c.error) << c.line;
}

// Where a shell would take the ">" of "->" for a file.
TEST(PolicyLine, AColonIsAsGoodAsAnArrow) {
  for (const char* const line : {"nodes=2..: int8", "allreduce: int8", "allreduce,allgather: int8",
                                 "allreduce bytes=1M..: int8", "name=\"a: b\": int8",
                                 "nodes=2..: int8; allgather: int4:block=64"}) {
    std::string arrows = line;
    for (size_t at = arrows.find(": int"); at != arrows.npos; at = arrows.find(": int", at + 1))
      arrows.replace(at, 1, " ->");
    EXPECT_EQ(parse_policy_line(line, {}).print(), parse_policy_line(arrows, {}).print()) << line;
  }
  EXPECT_NE(error_of("int4: block=64").find("did you mean \"int4:block=64\"?"), std::string::npos);
}

TEST(PolicyLine, AConditionAloneWantsQuotes) {
  EXPECT_EQ(error_of("nodes=2.."),
            "column 1: \"nodes=2..\" is a condition without a scheme; rules with \"->\" need "
            "quotes: 'nodes=2.. -> safe'");
}

TEST(PolicyLine, OptionsBehindTheWrongSignAreUnderstood) {
  const struct {
    const char *line, *error;
  } cases[] = {
      {"int4;block=64",
       "column 1: \"int4;block=64\" is no scheme, for \";\" separates rules; did you mean "
       "\"int4:block=64\"?"},
      {"off; allreduce -> int4:block=64; round=stochastic",
       "column 19: \"int4:block=64; round=stochastic\" is no scheme, for \";\" separates rules; "
       "did "
       "you mean \"int4:block=64,round=stochastic\"?"},
      {"allreduce -> minmax4,block=64",
       "column 14: \"minmax4,block=64\" is no scheme; did you mean \"minmax4:block=64\"?"},
      {"int4:block=64:seed=1",
       "column 1: \"int4:block=64:seed=1\" is no scheme; did you mean \"int4:block=64,seed=1\"?"},
      {"int4 block=64 seed=1",
       "column 1: \"int4 block=64 seed=1\" is no scheme; did you mean \"int4:block=64,seed=1\"?"},
  };
  for (const auto& c : cases) EXPECT_EQ(error_of(c.line), c.error) << c.line;
}

TEST(PolicyLine, BlanksAreFree) {
  const Policy tight = parse_policy_line("allreduce bytes=1M..->int4;int8", 0);
  EXPECT_EQ(parse_policy_line("\t allreduce \t bytes=1M.. ->int4 ;\tint8 ", 0).rules, tight.rules);
  EXPECT_EQ(parse_policy_line("allreduce bytes=1M..\n  -> int4;\r\nint8\n", 0).rules, tight.rules);
}

TEST(PolicyLine, RulesAreNumberedAsWritten) {
  const Policy p = parse_policy_line("allreduce -> off; safe; int8", 0);
  std::string numbers;
  for (const Rule& rule : p.rules) numbers += describe_rule(rule) + ". ";
  EXPECT_EQ(numbers, "rule 1. rule 2. rule 2. rule 2. rule 3. ");
}

}  // namespace
}  // namespace terse
