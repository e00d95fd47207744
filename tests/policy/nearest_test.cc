#include "policy/nearest.h"

#include <gtest/gtest.h>

#include "policy/size.h"

namespace terse {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("bytes", "btyes"), 1u);
  EXPECT_EQ(edit_distance("abcd", "badc"), 2u);
  EXPECT_EQ(edit_distance("scheme", "schme"), 1u);
}

TEST(Nearest, IsASlipAway) {
  constexpr std::string_view kKnown[] = {"bytes", "ranks", "op"};
  EXPECT_EQ(nearest("byte", kKnown), "bytes");
  EXPECT_EQ(nearest("rank", kKnown), "ranks");
  EXPECT_EQ(nearest("ops", kKnown), "op");
  EXPECT_EQ(nearest("BYTES", kKnown), "bytes");
  EXPECT_EQ(nearest("colour", kKnown), "");
  EXPECT_EQ(nearest("", kKnown), "");
  EXPECT_EQ(nearest(std::string(1000, 'b'), kKnown), "");
  EXPECT_EQ(hint("bytse", kKnown), "; did you mean \"bytes\"?");
  EXPECT_EQ(hint("colour", kKnown), "; known are bytes, ranks and op");
}

TEST(Nearest, IsWhatTheWordBegins) {
  constexpr std::string_view kKnown[] = {"bf16", "fp8e4m3", "fp8e5m2"};
  EXPECT_EQ(nearest("fp8", kKnown), "fp8e4m3");
  EXPECT_EQ(nearest("FP8E5", kKnown), "fp8e5m2");
  EXPECT_EQ(nearest("fp", kKnown), "") << "too short";
}

TEST(Size, HasUnitsAsPeopleWriteThem) {
  for (const char* text :
       {"64M", "64m", "64MB", "64MiB", "64mB", "65536K", "67108864", "67108864B"})
    EXPECT_EQ(parse_size(text), uint64_t{64} << 20) << text;
}

TEST(Size, PrintsTheShortestTextThatParsesBack) {
  const struct {
    uint64_t bytes;
    const char* text;
  } cases[] = {{0, "0"},
               {1, "1"},
               {1023, "1023"},
               {1024, "1K"},
               {1025, "1025"},
               {1 << 20, "1M"},
               {3 << 19, "1536K"},
               {uint64_t{1} << 40, "1024G"},
               {UINT64_MAX, "18446744073709551615"}};
  for (const auto& c : cases) {
    EXPECT_EQ(print_size(c.bytes), c.text);
    EXPECT_EQ(parse_size(c.text), c.bytes);
  }
  for (const char* text : {"", "K", "1KK", "1.5K", "1Mb", "1MI", "1BB", "MB", "-1", "+1", " 1",
                           "1 ", "0x1", "16777216T", "18446744073709551615G"})
    EXPECT_FALSE(parse_size(text)) << text;
}

}  // namespace
}  // namespace terse
