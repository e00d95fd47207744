// What ranks tell each other of their settings, and what they say of a difference.
#include "engine/peers/settings_digest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "policy/levels.h"
#include "policy/profile_file.h"

namespace terse {
namespace {

SettingsDigest told(const std::map<std::string, std::string>& environment) {
  return SettingsDigest(read_settings([&](const char* name) -> const char* {
    const auto entry = environment.find(name);
    return entry == environment.end() ? nullptr : entry->second.c_str();
  }));
}

std::string difference(const std::map<std::string, std::string>& theirs,
                       const std::map<std::string, std::string>& mine) {
  return differences(told(theirs), told(mine), 3);
}

TEST(SettingsDigest, NamesTheSettingAndBothValues) {
  const std::string policy = "the policy of TERSE_SCHEME or TERSE_POLICY is ";
  const struct {
    const char *name, *theirs, *mine;
    std::string text;
  } cases[] = {
      {"TERSE_MIN_BYTES", "65536", "1", "TERSE_MIN_BYTES is 64K on rank 3 but 1 on this rank"},
      {"TERSE_CHUNK_BYTES", "", "1M", "TERSE_CHUNK_BYTES is not set on rank 3 but 1M on this rank"},
      {"TERSE_SEED", "7", "", "TERSE_SEED is 7 on rank 3 but 0 on this rank"},
      {"TERSE_VERIFY", "", "2", "TERSE_VERIFY is 0 on rank 3 but 2 on this rank"},
      {"TERSE_SCHEME", "allreduce bytes=1.. -> int4", "",
       policy + "\"allreduce bytes=1.. -> int4:block=128,round=nearest\" on rank 3 but \"off\" on "
                "this rank"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(difference({{c.name, c.theirs}}, {{c.name, c.mine}}), c.text) << c.name;
}

TEST(SettingsDigest, NamesEachDifference) {
  EXPECT_EQ(
      difference({{"TERSE_SEED", "1"}, {"TERSE_VERIFY", "2"}}, {}),
      "TERSE_SEED is 1 on rank 3 but 0 on this rank; TERSE_VERIFY is 2 on rank 3 but 0 on this "
      "rank");
}

TEST(SettingsDigest, IgnoresWhatMayDiffer) {
  EXPECT_EQ(difference({}, {{"TERSE_SCHEME", "off"}}), "");
  EXPECT_EQ(difference({}, {{"TERSE_METER", "2"}, {"TERSE_NCCL", "/elsewhere"}, {"TERSE_LOG", ""}}),
            "");
  const std::string path = TERSE_EXAMPLES "/policy.toml";
  const std::string line = read_policy_file(path, 64 * 1024).print();
  EXPECT_EQ(difference({{"TERSE_POLICY", path}}, {{"TERSE_SCHEME", line}}), "")
      << "only what it says must be alike";
}

TEST(SettingsDigest, SeparatesLongTextsOfOneBeginning) {
  std::string rules;
  for (int ranks = 2; ranks < 12; ++ranks) rules += fmt::format("ranks={} -> off; ", ranks);
  const std::string text =
      difference({{"TERSE_SCHEME", rules + "int8"}}, {{"TERSE_SCHEME", rules + "int4"}});
  EXPECT_NE(text.find("\"ranks=2 -> off; ranks=3 -> off; "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("...\" on this rank (what differs comes later)")) << text;
}

TEST(SettingsDigest, NamesProfilesThatDiffer) {
  const char* const name = "TERSE_PROFILE";
  EXPECT_EQ(difference({{name, "a100-8x-nvlink"}}, {{name, "a100-8x-nvlink"}}), "");
  const std::string begin = "the profile of TERSE_PROFILE is \"";
  std::string text = difference({{name, "a100-8x-nvlink"}}, {{name, "l40s-8x-pcie"}});
  EXPECT_EQ(text.find(begin + "a100-8x-nvlink "), 0u) << text;
  EXPECT_NE(text.find("\" on rank 3 but \"l40s-8x-pcie "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("\" on this rank")) << text;
  text = difference({{name, "a100-8x-nvlink"}}, {});
  EXPECT_EQ(text.find(begin + "a100-8x-nvlink "), 0u) << text;
  EXPECT_TRUE(text.ends_with("\" on rank 3 but \"\" on this rank")) << text;
}

// Both are of one name, and say the same of all but a last digit.
TEST(SettingsDigest, SeparatesProfilesThatDifferAtTheEnd) {
  const auto settings = [](const char* seconds) {
    Settings s;
    s.profile =
        parse_profile(fmt::format("name = \"{}\"\n[[measured]]\ncollective = \"allreduce\"\n"
                                  "dtype = \"float32\"\nranks = 4\nnodes = 1\nscheme = \"native\"\n"
                                  "points = [[65536, {}]]\n",
                                  std::string(80, 'n'), seconds),
                      "p.toml");
    return SettingsDigest(s);
  };
  EXPECT_EQ(differences(settings("0.0012345678"), settings("1.2345678e-3"), 3), "");
  const std::string text = differences(settings("0.0012345678"), settings("0.0012345679"), 3);
  EXPECT_EQ(text.find("the profile of TERSE_PROFILE is \"nnnn"), 0u) << text;
  EXPECT_TRUE(text.ends_with("...\" on this rank (what differs comes later)")) << text;
}

TEST(SettingsDigest, NamesLevelsThatDiffer) {
  const auto settings = [](const char* numbers) {
    Settings s;
    if (*numbers != 0)
      s.levels = parse_levels(fmt::format("[[levels]]\nat = [{}]\n", numbers), "l.toml");
    return SettingsDigest(s);
  };
  const SettingsDigest mine = settings("0, 0.25, 0.75, 1");
  EXPECT_EQ(differences(settings("0, 0.250, 0.75, 1"), mine, 3), "");
  const std::string begin = "what is in the file of TERSE_LEVELS is \"";
  const std::string text = differences(settings("0, 0.5, 0.75, 1"), mine, 3);
  EXPECT_EQ(text.find(begin + "[[levels]] "), 0u) << text;
  EXPECT_NE(text.find("\" on rank 3 but \"[[levels]] "), std::string::npos) << text;
  EXPECT_NE(text.find("\" on this rank"), std::string::npos) << text;
  EXPECT_EQ(differences(settings(""), mine, 3).find(begin + "\" on rank 3 but \"[[levels]] "), 0u);
}

TEST(SettingsDigest, NamesWhatCannotBeRead) {
  EXPECT_TRUE(told({{"TERSE_SCHEME", "int8"}}).error.empty());
  EXPECT_EQ(told({{"TERSE_TIMEOUT", "x"}}).error.beginning(),
            "TERSE_TIMEOUT=\"x\": it must be a whole number");
  const std::string folder = "/" + std::string(300, 'f');
  const std::string beginning = told({{"TERSE_POLICY", folder}}).error.beginning();
  EXPECT_EQ(beginning.find("TERSE_POLICY=\"/fff"), 0u);
  EXPECT_TRUE(beginning.ends_with("fff...")) << beginning;
}

}  // namespace
}  // namespace terse
