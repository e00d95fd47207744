#include "policy/match.h"

#include <gtest/gtest.h>

namespace terse {
namespace {

using plan::Collective;

constexpr Set kAllReduce = set_of(Collective::kAllReduce);

Facts facts() {
  return {.collective = Collective::kAllReduce,
          .bytes = 1 << 20,
          .dtype = ncclBfloat16,
          .op = ncclAvg,
          .ranks = 8,
          .nodes = 2,
          .name = "dp"};
}

std::string refusal(const Match& match, const Facts& f = facts()) {
  const char* key = match.refusal(f);
  return key != nullptr ? key : "matches";
}

Match about(Set collectives) { return {.collectives = collectives}; }

TEST(Match, AsksForCollectives) {
  EXPECT_EQ(refusal(about(kAllReduce)), "matches");
  EXPECT_EQ(refusal(about(set_of(Collective::kAllGather))), "collective");
  EXPECT_EQ(refusal(about(set_of(Collective::kAllGather) | kAllReduce)), "matches");
}

TEST(Match, AsksForDtypes) {
  Match m = about(kAllReduce);
  m.dtypes = set_of(ncclBfloat16);
  EXPECT_EQ(refusal(m), "matches");
  m.dtypes = set_of(ncclFloat16) | set_of(ncclFloat32);
  EXPECT_EQ(refusal(m), "dtype");
  Facts f = facts();
  f.dtype = static_cast<ncclDataType_t>(1000);  // C callers may pass any number
  EXPECT_EQ(refusal(m, f), "dtype");
}

TEST(Match, AsksForOperationsOfCollectivesThatReduce) {
  Match m = about(kAllReduce | set_of(Collective::kAllGather));
  m.ops = set_of(ncclAvg);
  EXPECT_EQ(refusal(m), "matches");
  Facts f = facts();
  f.op = ncclSum;
  EXPECT_EQ(refusal(m, f), "op");
  f.op = static_cast<ncclRedOp_t>(64);  // one that the program has made
  EXPECT_EQ(refusal(m, f), "op");
  f.op = ncclAvg;
  f.collective = Collective::kAllGather;
  EXPECT_EQ(refusal(m, f), "op");
}

TEST(Match, RangesIncludeBothEnds) {
  const struct {
    Range Match::*range;
    const char* key;
    void (*put)(Facts& f, uint64_t value);
  } numbers[] = {
      {&Match::bytes, "bytes", [](Facts& f, uint64_t v) { f.bytes = v; }},
      {&Match::ranks, "ranks", [](Facts& f, uint64_t v) { f.ranks = static_cast<int>(v); }},
      {&Match::nodes, "nodes", [](Facts& f, uint64_t v) { f.nodes = static_cast<int>(v); }},
      {&Match::tag, "tag", [](Facts& f, uint64_t v) { f.tag = v; }},
  };
  for (const auto& n : numbers) {
    Match m = about(kAllReduce);
    m.*n.range = {3, 5};
    for (const uint64_t value : {2, 3, 4, 5, 6}) {
      Facts f = facts();
      n.put(f, value);
      EXPECT_EQ(refusal(m, f), value < 3 || value > 5 ? n.key : "matches") << n.key << value;
    }
  }
}

TEST(Match, AsksForNodesOnlyWhenTheyAreKnown) {
  Facts f = facts();
  f.nodes = 0;
  Match m = about(kAllReduce);
  EXPECT_EQ(refusal(m, f), "matches");
  m.nodes = {1, UINT64_MAX};
  EXPECT_EQ(refusal(m, f), "nodes");
  m.nodes = {0, 5};
  EXPECT_EQ(refusal(m, f), "nodes");
}

TEST(Match, AsksForNames) {
  Match m = about(kAllReduce);
  m.name = "d*";
  EXPECT_EQ(refusal(m), "matches");
  m.name = "tp*";
  EXPECT_EQ(refusal(m), "name");
  m.name = "?*";
  Facts f = facts();
  f.name = {};
  EXPECT_EQ(refusal(m, f), "name");
}

TEST(Match, TheSizeIsTheLastThingThatRefuses) {
  Match m = about(kAllReduce);
  m.bytes = {2 << 20, UINT64_MAX};
  m.name = "tp";
  EXPECT_EQ(refusal(m), "name");
}

TEST(Glob, MatchesTheWholeText) {
  const struct {
    const char *pattern, *text;
    bool matches;
  } cases[] = {
      {"", "", true},
      {"", "a", false},
      {"a", "", false},
      {"a", "a", true},
      {"a", "b", false},
      {"a", "ab", false},
      {"?", "a", true},
      {"?", "", false},
      {"??", "a", false},
      {"*", "", true},
      {"*", "abc", true},
      {"a*", "a", true},
      {"a*", "ba", false},
      {"*a", "ba", true},
      {"*a", "ab", false},
      {"a*c", "abbc", true},
      {"a*c", "abcb", false},
      {"*ab*", "xaabx", true},
      {"*ab*ab", "abab", true},
      {"*ab*ab", "aab", false},
      {"**", "x", true},
      {"dp_*", "dp_0", true},
      {"dp.*", "dpx", false},
      {"[a]", "a", false},
      {"a*b*c*d", "aXbYcZd", true},
      {"a*b*c*d", "aXcYbZd", false},
  };
  for (const auto& c : cases)
    EXPECT_EQ(glob(c.pattern, c.text), c.matches) << c.pattern << " and " << c.text;
}

TEST(Match, CoversWhatAsksForMore) {
  Match all = about(kAllReduce | set_of(Collective::kAllGather));
  Match m = about(kAllReduce);
  EXPECT_TRUE(all.covers(m));
  EXPECT_FALSE(m.covers(all));
  const auto add = [&](const auto& change) {
    Match narrow = m;
    change(narrow);
    EXPECT_TRUE(m.covers(narrow));
    EXPECT_TRUE(narrow.covers(narrow));
    EXPECT_FALSE(narrow.covers(m));
  };
  add([](Match& n) { n.dtypes = set_of(ncclFloat32); });
  add([](Match& n) { n.ops = set_of(ncclSum); });
  add([](Match& n) { n.bytes = {1, UINT64_MAX}; });
  add([](Match& n) { n.ranks = {0, 8}; });
  add([](Match& n) { n.nodes = {2, 2}; });
  add([](Match& n) { n.name = "a*"; });
  Match one = m, other = m;
  one.name = "a*";
  other.name = "b*";
  EXPECT_FALSE(one.covers(other));
  one = other = m;
  one.dtypes = set_of(ncclFloat32);
  other.dtypes = set_of(ncclFloat32) | set_of(ncclFloat16);
  EXPECT_TRUE(other.covers(one));
  EXPECT_FALSE(one.covers(other));
}

}  // namespace
}  // namespace terse
