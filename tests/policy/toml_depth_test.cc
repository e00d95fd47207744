// How deep a TOML text goes, whatever its strings and comments look like.
#include "policy/toml_depth.h"

#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <random>
#include <string>

namespace terse {
namespace {

std::string key_of(size_t parts, std::string_view part = "a") {
  std::string key(part);
  while (--parts > 0) key.append(".").append(part);
  return key;
}

std::string nested(size_t lists, std::string_view innermost) {
  return std::string(lists, '[') + std::string(innermost) + std::string(lists, ']');
}

std::string what_is_deep(const std::string& text) {
  const auto deep = too_deep(text);
  return deep ? std::to_string(deep->offset) + ": " + deep->what : "";
}

TEST(TomlDepth, AKeyHasAtMost100Parts) {
  EXPECT_EQ(what_is_deep(key_of(100) + " = 1"), "");
  EXPECT_EQ(what_is_deep(key_of(101) + " = 1"), "199: a key of more than 100 parts");
}

TEST(TomlDepth, AtMost16ListsOrTablesLieInEachOther) {
  const std::string too_many = ": more than 16 lists or tables in each other";
  EXPECT_EQ(what_is_deep("x = " + nested(16, "1")), "");
  EXPECT_EQ(what_is_deep("x = " + nested(17, "1")), "20" + too_many);
  EXPECT_EQ(what_is_deep("x = " + nested(16, "{a=1}")), "20" + too_many);
  EXPECT_EQ(what_is_deep("[[a]]\n[[a]]\n" + std::string("x = [[], [], [[]]]\n")), "");
}

// The parts of a key, in all ways to write one.
TEST(TomlDepth, PartsAreCountedInQuotesOrNot) {
  for (const char* part : {"a", "'a'", "\"a\"", "\"\\\"\"", "\"\\\\\"", "'\\'", "''", "\"\"",
                           "\"'\"", "'\"'", "\"#\"", "\"a.b = [{\"", "\"=\"", " 'it' "}) {
    const std::string most = key_of(100, part) + " = 1", more = key_of(101, part) + " = 1";
    EXPECT_NO_THROW(toml::parse(most)) << part;
    EXPECT_EQ(what_is_deep(most), "") << part;
    EXPECT_EQ(too_deep(more)->offset, more.rfind('.', more.rfind(part))) << part;
  }
}

// Lines that are good TOML, and look as if a text in quotes or a comment went on or was over.
constexpr const char* kLines[] = {
    "'''it's'''",
    R"("""x""")",
    R"("""a\"""b""")",
    R"("""a\\""")",
    R"("""a"""")",
    R"("""a""""")",
    R"("""""")",
    "''''''",
    "'''a''''",
    "'''\\'''",
    "\"\"\"\n# ' \" .\n\"\"\"",
    "\"\"\"\n\\\n  x\"\"\"",
    "'''\n\"\"\"\n'''",
    "'''\n# '\n'''",
    R"("\"")",
    R"("\\")",
    R"("#")",
    R"("")",
    "''",
    "'\\'",
    R"('"')",
    R"("'")",
    "1 # it's \"",
    "1 # '''",
    "1 # \"\"\"",
    "[ # ]]] \"\n 1, # '\n]",
    "['''a]''', \"]\"]",
    "{'}' = \"}\", \"\\\"{\" = 1.5}",
    "1979-05-27T07:32:00Z",
    "[[], [{}]]",
    R"("\u0022")",
};

TEST(TomlDepth, NothingBeforeHidesAKey) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int line = 0; line < 1 + round % 4; ++line)
      text += "k" + std::to_string(line) + " = " + kLines[random() % std::size(kLines)] + "\n";
    ASSERT_NO_THROW(toml::parse(text)) << text;
    EXPECT_EQ(what_is_deep(text + key_of(100) + " = 1\n"), "") << text;
    EXPECT_EQ(what_is_deep(text + key_of(101) + " = 1\n"),
              std::to_string(text.size() + 199) + ": a key of more than 100 parts")
        << text;
    EXPECT_EQ(what_is_deep(text + "x = " + nested(16, "1")), "") << text;
    EXPECT_EQ(too_deep(text + "x = " + nested(17, "1"))->offset, text.size() + 20) << text;
  }
}

// What is no TOML may have any end.
TEST(TomlDepth, AnyBytesEnd) {
  constexpr std::string_view kBytes = "\"'\\#\n.=[]{},a";
  std::mt19937 random(2);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (unsigned i = 0; i < random() % 24; ++i) text += kBytes[random() % kBytes.size()];
    const auto deep = too_deep(text);
    EXPECT_FALSE(deep) << text;
  }
}

}  // namespace
}  // namespace terse
