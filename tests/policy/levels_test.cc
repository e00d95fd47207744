// Levels in TOML: what they say, which calls they are for, what is refused, and where.
#include "policy/levels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "error_of.h"
#include "policy/scheme.h"
#include "policy/settings.h"
#include "trials.h"

namespace terse {
namespace {

using codec::Dtype;
using plan::Collective;

std::vector<Levels> parse(std::string_view text) { return parse_levels(text, "l.toml"); }

TEST(Levels, SayWhatTheirFileSays) {
  const std::vector<Levels> all = parse(R"(# by hand
[[levels]]
collective = "allgather"
count = 1_048_576
dtype = "bf16"
scheme = "learned2:block=1024"
calls = 250
fits = 2
at = [0, 0.25, 0.75, 1]

[[levels]]
at = [0.125, 0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 1]
)");
  const std::vector<Levels> wanted = {
      {Collective::kAllGather,
       1048576,
       Dtype::kBfloat16,
       parse_scheme("learned2:block=1024").spec,
       250,
       2,
       {0, 0.25f, 0.75f, 1}},
      {{}, {}, {}, {}, 1, 0, {0.125f, 0.25f, 0.25f, 0.5f, 0.5f, 0.5f, 0.75f, 1}}};
  EXPECT_EQ(all, wanted);
  EXPECT_EQ(all[0].bits(), 2);
  EXPECT_EQ(all[1].bits(), 3);
  EXPECT_EQ(parse(print_levels(all)), all) << print_levels(all);
  EXPECT_EQ(parse("# none\n"), std::vector<Levels>());
  EXPECT_EQ(print_levels({}), "");
}

Levels random_levels(std::mt19937& random) {
  static constexpr Collective kOf[] = {Collective::kAllReduce, Collective::kAllGather,
                                       Collective::kReduceScatter, Collective::kGather};
  const int bits = 2 + static_cast<int>(random() % 7);
  Levels l;
  if (random() % 2) l.collective = kOf[random() % std::size(kOf)];
  if (random() % 2) l.count = uint64_t{random()} << random() % 20;
  if (random() % 2) l.dtype = static_cast<Dtype>(random() % 3);
  if (random() % 2)
    l.spec = parse_scheme(fmt::format("learned{}:block={},round={}", bits, 32 << random() % 8,
                                      random() % 2 ? "nearest" : "stochastic"))
                 .spec;
  l.calls = random();
  l.fits = random() % 100;
  l.at.resize(size_t{1} << bits);
  for (float& level : l.at) level = std::uniform_real_distribution<float>(0, 1)(random);
  std::ranges::sort(l.at);
  return l;
}

TEST(Levels, ArePrintedToTheLastBit) {
  std::mt19937 random(7);
  for (int trial = 0; trial < test::trials(200, 20); ++trial) {
    std::vector<Levels> all(random() % 4);
    for (Levels& l : all) l = random_levels(random);
    EXPECT_EQ(parse(print_levels(all)), all) << print_levels(all);
  }
}

TEST(Levels, AreForTheCallsThatTheyName) {
  const codec::Spec spec = parse_scheme("learned2:block=64").spec;
  const auto fits = [&](std::string_view text, const codec::Spec& of) {
    return parse(text).front().fit(Collective::kAllGather, 100, Dtype::kFloat16, of);
  };
  const std::string at = "at = [0, 0.1, 0.2, 1]\n", begin = "[[levels]]\n";
  EXPECT_TRUE(fits(begin + at, spec));
  for (const char* same : {"collective = \"allgather\"\n", "count = 100\n", "dtype = \"fp16\"\n",
                           "scheme = \"learned2:block=64\"\n"})
    EXPECT_TRUE(fits(begin + same + at, spec)) << same;
  for (const char* other : {"collective = \"allreduce\"\n", "count = 101\n", "dtype = \"fp32\"\n",
                            "scheme = \"learned2:block=32\"\n"})
    EXPECT_FALSE(fits(begin + other + at, spec)) << other;
  EXPECT_FALSE(fits(begin + at, parse_scheme("learned3").spec)) << "of four levels";
  // Unbiased rounding needs a level on either side of each element.
  const codec::Spec stochastic = parse_scheme("learned2:round=stochastic").spec;
  EXPECT_TRUE(fits(begin + at, stochastic));
  EXPECT_FALSE(fits(begin + "at = [0, 0.1, 0.2, 0.9]\n", stochastic));
  EXPECT_FALSE(fits(begin + "at = [0.01, 0.1, 0.2, 1]\n", stochastic));
  EXPECT_TRUE(fits(begin + "at = [0.01, 0.1, 0.2, 0.9]\n", spec));
}

TEST(Levels, ThatCannotBeAreRefusedWithTheirPlace) {
  const std::string four = "at = [0, 0.1, 0.2, 1]\n";
  const std::pair<std::string, const char*> cases[] = {
      {"level = 1\n", "1:1: unknown key \"level\"; did you mean \"levels\"?"},
      {"levels = 1\n", "1:1: levels is a list of tables, [[levels]]"},
      {"levels = [1]\n", "1:11: levels is a table, [[levels]]"},
      {"[[levels]]\n", "1:1: [[levels]] has no list at"},
      {"[[levels]]\nat = 1\n", "2:1: at is a list of numbers"},
      {"[[levels]]\nat = []\n",
       "2:1: at has 0 numbers, but must have a power of two of them, 4 to "
       "256"},
      {"[[levels]]\nat = [0, 1]\n", "2:1: at has 2 numbers, but"},
      {"[[levels]]\nat = [0, 0.1, 0.2, 0.3, 1]\n", "2:1: at has 5 numbers, but"},
      {"[[levels]]\nat = [0, nan, 0.2, 1]\n", "2:10: a level is nan, but must be from 0 to 1"},
      {"[[levels]]\nat = [-0.1, 0, 0.2, 1]\n", "2:7: a level is -0.1, but must be from 0 to 1"},
      {"[[levels]]\nat = [0, 0.1, 0.2, 1.5]\n", "2:20: a level is 1.5, but must be from 0 to 1"},
      {"[[levels]]\nat = [0, 0.3, 0.2, 1]\n",
       "2:15: a level is 0.2, less than the one before it, 0.3"},
      {"[[levels]]\nat = [0, \"x\", 0.2, 1]\n", "2:10: a level is a number"},
      {"[[levels]]\nscheme = \"int4\"\n" + four, "2:10: \"int4\" learns no levels"},
      {"[[levels]]\nscheme = \"auto\"\n" + four, "2:10: \"auto\" learns no levels"},
      {"[[levels]]\nscheme = \"learned4\"\n" + four, "1:1: the scheme has 16 levels, but at has 4"},
      {"[[levels]]\ncollective = \"allgathr\"\n" + four,
       "2:14: unknown collective \"allgathr\"; did you mean"},
      {"[[levels]]\ndtype = \"int8\"\n" + four, "2:9: dtype \"int8\": integers are never"},
      {"[[levels]]\ncount = -1\n" + four, "2:9: count is -1, but must be a whole number from 0"},
      {"[[levels]]\ncalls = 1.5\n" + four, "2:9: calls is 1.5, but must be a whole number from 0"},
      {"[[levels]]\ncall = 1\n" + four, "2:1: unknown key \"call\"; did you mean \"calls\"?"},
  };
  for (const auto& [text, message] : cases) {
    const std::string error = error_of([&, t = text] { parse(t); });
    EXPECT_EQ(error.find(std::string("l.toml:") + message), 0u) << text << error;
  }
}

// A job whose calls are of ever new sizes could not begin again by a file that it cannot read.
TEST(Levels, OfVeryManyKindsOfCallsTheMostUsedAreKept) {
  std::vector<Levels> all;
  for (uint64_t i = 0; i < 200; ++i)
    all.push_back({.count = i, .calls = 1 + i * 37 % 200, .at = {0, 0.25, 0.5, 1}});
  EXPECT_EQ(print_most_used(all), print_levels(all));
  for (const size_t most : {0, 100, 4000, 8000}) {
    const std::string text = print_most_used(all, most);
    EXPECT_LE(text.size(), most);
    EXPECT_GE(text.size() + most / 8 + 60, most) << "more had room";
    const std::vector<Levels> kept = parse(text);
    for (const Levels& levels : kept) EXPECT_GT(levels.calls, 200 - kept.size());
  }
}

// More than a policy may have.
TEST(Levels, OfALongFileAreRead) {
  const std::string path = testing::TempDir() + fmt::format("terse-long-levels{}.toml", getpid());
  std::ofstream(path) << std::string(3 << 20, '\n') << "[[levels]]\nat = [0, 0, 1, 1]\n";
  EXPECT_EQ(read_levels(path), (std::vector<Levels>{{.at = {0, 0, 1, 1}}}));
  std::ofstream(path) << std::string(kMaxLevelsBytes + 1, '\n');
  EXPECT_EQ(error_of([&] { read_levels(path); }),
            path + " has more than 16M: it cannot be a file of levels");
  std::filesystem::remove(path);
}

TEST(Levels, OfAFileThatIsNotThereAreNone) {
  const std::string path = testing::TempDir() + "terse-levels-of-nobody.toml";
  std::filesystem::remove(path);
  EXPECT_EQ(read_levels(path), std::vector<Levels>());
  const auto read = [&] {
    return read_settings([&](std::string_view name) -> const char* {
      return name == "TERSE_LEVELS" ? path.c_str() : nullptr;
    });
  };
  EXPECT_EQ(read().error, "");
  EXPECT_EQ(read().levels_path, path);
  std::ofstream(path) << "[[levels]]\nat = [0, 0, 1, 1]\n";
  EXPECT_EQ(read().levels, (std::vector<Levels>{{.at = {0, 0, 1, 1}}}));
  std::ofstream(path) << "[[levels]]\nat = [0, 1, 0, 1]\n";
  EXPECT_EQ(read().error, "TERSE_LEVELS=\"" + path + "\": " + path +
                              ":2:13: a level is 0, less than the one before it, 1");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace terse
