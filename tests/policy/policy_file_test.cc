// A policy in a TOML file: what it says, what is refused, and where.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "error_of.h"
#include "policy/policy.h"

namespace terse {
namespace {

Policy parse(std::string_view text) { return parse_policy_file(text, "p.toml", 64 * 1024); }

std::string error_of(std::string_view text) {
  return terse::error_of([&] { parse(text); });
}

TEST(PolicyFile, SaysTheSameAsALine) {
  const Policy p = parse(R"(# Norms of the tensor-parallel groups are exact.
[[rule]]
name = "tp *"
scheme = "off"

[[rule]]
scheme = "int4:block=64"   # keys in any order
collective = ["allreduce", 'reducescatter']
dtype = "bfloat16"
op = ["sum", "avg"]
bytes = "1M..1G"
ranks = 16
nodes = "2.."

[[rule]]
bytes = 4096
scheme = "safe"
)");
  const Policy line = parse_policy_line(
      "name=\"tp *\" -> off; allreduce,reducescatter dtype=bf16 op=sum,avg bytes=1M..1G ranks=16 "
      "nodes=2.. -> int4:block=64; bytes=4096 -> safe",
      64 * 1024);
  EXPECT_EQ(p.rules, line.rules);
  EXPECT_EQ(p.print(), line.print());
  std::string lines;
  for (const Rule& rule : p.rules) lines += describe_rule(rule) + ". ";
  EXPECT_EQ(lines,
            "rule 1 (line 2). rule 2 (line 6). rule 3 (line 15). rule 3 (line 15). "
            "rule 3 (line 15). ");
}

TEST(PolicyFile, TagsAreNumbersOrTexts) {
  const std::vector<Rule> line = parse_policy_line("tag=256 -> int8", 64 * 1024).rules;
  for (const char* tag : {"256", "0x100", "\"0x100\"", "\"256..0x100\""})
    EXPECT_EQ(parse(fmt::format("[[rule]]\ntag = {}\nscheme = \"int8\"\n", tag)).rules, line)
        << tag;
}

TEST(PolicyFile, HasUsualSizesWhereItNamesNone) {
  const std::vector<Rule> usual = parse_policy_line("int8", std::nullopt).rules;
  EXPECT_EQ(parse_policy_file("[[rule]]\nscheme = \"int8\"\n", "p.toml", std::nullopt).rules,
            usual);
  EXPECT_EQ(parse("[[rule]]\nbytes = \"usual..\"\nscheme = \"int8\"\n").rules, usual);
}

TEST(PolicyFile, OtherWaysToWriteTables) {
  EXPECT_EQ(parse("rule = [{scheme = \"int8\"}, {scheme = \"off\"}]").print(),
            parse_policy_line("int8; off", 64 * 1024).print());
  EXPECT_EQ(parse("").print(), "off");
  EXPECT_EQ(parse("rule = []").rules.size(), 0u);
}

TEST(PolicyFile, WarnsWithLines) {
  const std::vector<std::string> lines =
      parse("[[rule]]\nscheme = \"int8\"\n[[rule]]\nscheme = \"int4\"\n").warnings();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "rule 2 (line 3) is never reached: rule 1 (line 1) takes all of its calls");
}

TEST(PolicyFile, ErrorsSayWhere) {
  const struct {
    const char *text, *error;
  } cases[] = {
      {"[[rule]]\nscheme = \"int8\"\nbtyes = \"1M..\"\n",
       "p.toml:3:1: unknown key \"btyes\"; did you mean \"bytes\"?"},
      {"[[rule]]\nschem = \"int8\"\n",
       "p.toml:2:1: unknown key \"schem\"; did you mean \"scheme\"?"},
      {"[[rule]]\n  a.b = 1\n",
       "p.toml:2:3: unknown key \"a\"; known are collective, dtype, op, bytes, shard, ranks, "
       "nodes, name, tag and scheme"},
      {"[[rules]]\nscheme = \"int8\"\n",
       "p.toml:1:3: unknown key \"rules\"; did you mean \"rule\"?"},
      {"version = 1\n", "p.toml:1:1: unknown key \"version\"; known are rule"},
      {"scheme = \"int8\"\n", "p.toml:1:1: \"scheme\" belongs to a rule, under [[rule]]"},
      {"nodes = 2\n", "p.toml:1:1: \"nodes\" belongs to a rule, under [[rule]]"},
      {"[rule]\nscheme = \"int8\"\n", "p.toml:1:2: rules begin with [[rule]]"},
      {"rule = [1]\n", "p.toml:1:9: a rule is a table, [[rule]]"},
      {"\n[[rule]]\nbytes = 1\n", "p.toml:2:1: the rule has no scheme"},
      {"[[rule]]\nscheme = 8\n", "p.toml:2:10: a text in quotes is expected here"},
      {"[[rule]]\nscheme = [\"int8\"]\n", "p.toml:2:10: a text in quotes is expected here"},
      {"[[rule]]\nscheme = \"int9\"\n",
       "p.toml:2:10: scheme \"int9\": 9 bits are not offered, only 2 to 8"},
      {"[[rule]]\nscheme = \"int4;block=64;round=stochastic\"\n",
       "p.toml:2:10: \"int4;block=64;round=stochastic\" is no scheme; did you mean "
       "\"int4:block=64,round=stochastic\"?"},
      {"[[rule]]\nbytes = 1.5\nscheme = \"int8\"\n",
       "p.toml:2:9: a text in quotes or a number is expected here"},
      {"[[rule]]\nbytes = [1, 2]\nscheme = \"int8\"\n",
       "p.toml:2:9: a text in quotes or a number is expected here"},
      {"[[rule]]\nnodes = -2\nscheme = \"int8\"\n",
       "p.toml:2:9: \"-2\" is not a range such as 1 or 2.."},
      {"[[rule]]\nname = 3\nscheme = \"int8\"\n", "p.toml:2:8: a text in quotes is expected here"},
      {"[[rule]]\nname = \"a\\nb\"\nscheme = \"int8\"\n",
       "p.toml:2:8: the name has a control character"},
      {"[[rule]]\ncollective = []\nscheme = \"int8\"\n",
       "p.toml:2:14: the list is empty; leave collective out"},
      {"[[rule]]\ndtype = [\"float32\", \"int64\"]\nscheme = \"int8\"\n",
       "p.toml:2:21: dtype \"int64\": integers are never compressed lossily"},
  };
  for (const auto& c : cases) EXPECT_EQ(error_of(c.text), c.error) << c.text;
}

// What the library finds, in its words; and a message that grows with the collectives known.
TEST(PolicyFile, ErrorsOfTheTextItselfSayWhereToo) {
  const struct {
    const char *text, *place;
  } cases[] = {
      {"[[rule]]\ncollective = [\"allreduce\",\n  \"brodcast\"]\nscheme = \"int8\"\n",
       "p.toml:3:3: unknown collective \"brodcast\""},
      {"[[rule]]\nscheme = \"int8\"\nscheme = \"int4\"\n", "p.toml:3:"},
      {"[[rule]]\nscheme = \"int8\n", "p.toml:2:15: the text in quotes is not closed"},
      {"[[rule]]\nscheme = 'int8\r\n", "p.toml:2:15: the text in quotes is not closed"},
      {"[[rule]]\nscheme = \"int8", "p.toml:2:15: the text in quotes is not closed"},
      {"scheme = \"\"\"int8\n\n", "p.toml:2:2: the text in quotes is not closed"},
      {"[[rule]]\nscheme = \"int\x01\"\n", "p.toml:2:14: Error while parsing string: "},
      {"[[rule]\nscheme = \"int8\"\n", "p.toml:1:8: "},
      {"\xff", "p.toml:1:1: "},
      {"[[rule]]\nname = \"\xc3\xa9\"\n", "p.toml:2:9: a character that is not ASCII"},
  };
  for (const auto& c : cases) EXPECT_EQ(error_of(c.text).find(c.place), 0u) << error_of(c.text);
}

// Not by the end of the stack.
TEST(PolicyFile, NeitherAKeyNorAValueGoesDeeperThanAnybodyNeeds) {
  std::string parts, lists(200'000, '[');
  for (int i = 0; i < 200'000; ++i) parts += ".a";
  const std::string too_many = "a key of more than 100 parts";
  EXPECT_EQ(error_of("a" + parts + " = 1"), "p.toml:1:200: " + too_many);
  EXPECT_EQ(error_of("\"\\\"\"" + parts + " = 1"), "p.toml:1:203: " + too_many);
  EXPECT_EQ(error_of("[[rule]]\nname = \"\"\"\nx\"\"\"\"\n[a" + parts + "]"),
            "p.toml:4:201: " + too_many);
  EXPECT_EQ(error_of("x = {y = " + lists),
            "p.toml:1:25: more than 16 lists or tables in each other");
  const std::string dots(1000, '.');
  for (const std::string& text : {"[[rule]]\nscheme = 'int8'  # " + dots,
                                  "[[rule]]\nscheme = \"int8\"\nname = \"" + dots + "\""})
    EXPECT_EQ(error_of(text), "accepted") << text;
}

TEST(PolicyFile, ErrorsOfTextsWithoutQuotesSayWhatIsMeant) {
  const struct {
    const char *line, *meant;
  } cases[] = {
      {"scheme=safe", "scheme = \"safe\""},
      {"scheme = int8:block=64  # short", "scheme = \"int8:block=64\""},
      {"bytes = 1M..", "bytes = \"1M..\""},
      {"bytes = 64K", "bytes = \"64K\""},
  };
  for (const auto& c : cases)
    EXPECT_TRUE(error_of(std::string("[[rule]]\n") + c.line + "\n")
                    .ends_with(std::string("; a text stands in quotes: ") + c.meant))
        << error_of(std::string("[[rule]]\n") + c.line + "\n");
  for (const char* line : {"ranks = 1.2.3", "scheme = \"int8", "scheme"})
    EXPECT_EQ(error_of(std::string("[[rule]]\n") + line + "\n").find("stands in"),
              std::string::npos)
        << line;
}

TEST(PolicyFile, CommentsMayHaveAnyCharacters) {
  EXPECT_EQ(parse("# caf\xc3\xa9 \xef\xbb\xb9\n[[rule]]\nscheme = \"int8\"\n").rules.size(), 1u);
}

TEST(PolicyFile, TheFirstErrorIsTheFirstInTheText) {
  EXPECT_EQ(error_of("[[rule]]\nzz = 1\naa = 1\n").substr(0, 11), "p.toml:2:1:");
}

TEST(PolicyFile, FilesThatCannotBeRead) {
  const auto read = [](const std::string& path) {
    try {
      read_policy_file(path, 0);
    } catch (const Error& e) {
      return e.message;
    }
    return std::string("read");
  };
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(read("/nowhere/p.toml"), "/nowhere/p.toml cannot be read: No such file or directory");
  EXPECT_EQ(read(folder), folder + " cannot be read: Is a directory");
  EXPECT_EQ(read("/dev/zero"), "/dev/zero is neither a file nor a pipe");
  const std::string large = ::testing::TempDir() + fmt::format("large_policy{}.toml", getpid());
  std::ofstream(large) << "[[rule]]\nscheme = \"int8\"\n" << std::string(size_t{1} << 20, '\n');
  EXPECT_EQ(read(large), large + " has more than 1M: it cannot be a policy");
  std::filesystem::resize_file(large, size_t{1} << 20);
  EXPECT_EQ(read(large), "read");
  std::filesystem::remove(large);
}

TEST(PolicyFile, PipesAreRead) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string_view text = "[[rule]]\nscheme = \"int8\"\n";
  ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  EXPECT_EQ(read_policy_file("/proc/self/fd/" + std::to_string(ends[0]), 0).rules.size(), 1u);
  close(ends[0]);
}

TEST(PolicyFile, TheExampleIsAPolicy) {
  const Policy p = read_policy_file(TERSE_EXAMPLES "/policy.toml", 64 * 1024);
  EXPECT_EQ(p.warnings(), std::vector<std::string>{});
  EXPECT_EQ(
      p.print(),
      "name=mesh_tp* -> off; name=*TENSOR* -> off; "
      "allgather dtype=float16,bfloat16 bytes=1M.. nodes=2.. -> minmax8:block=1024,round=shift; "
      "allreduce,reducescatter dtype=float32 bytes=1M.. nodes=2.. -> "
      "int4:block=128,round=stochastic; "
      "allreduce,reducescatter op=sum,avg bytes=256K.. nodes=2.. -> "
      "int8:block=128,round=stochastic");
}

}  // namespace
}  // namespace terse
