// What messages and reports are made of.
#include "base/text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/log.h"

namespace terse {
namespace {

TEST(Text, ControlCharactersArePrintedAsInLiterals) {
  const struct {
    std::string_view text, printed;
  } cases[] = {
      {"", ""},
      {"dp \"0\" \\ ~", "dp \"0\" \\ ~"},
      {"\x1b[31mred", "\\x1b[31mred"},
      {"a\nb\r\tc\x7f", "a\\nb\\r\\tc\\x7f"},
      {std::string_view("\0", 1), "\\x00"},
      {"\u00e4\u20ac\U0001f600", "\u00e4\u20ac\U0001f600"},
      {"\u0085\u009b\u00a0", "\\xc2\\x85\\xc2\\x9b\u00a0"},  // controls of eight bits
      {"\x9b"
       "31m \xff\xc3 \xe2\x82",
       "\\x9b31m \\xff\\xc3 \\xe2\\x82"},            // no UTF-8
      {"\xc0\x9b\xc1\x81", "\\xc0\\x9b\\xc1\\x81"},  // longer than it must be
  };
  for (const auto& c : cases) EXPECT_EQ(printable(c.text), c.printed);
}

TEST(Text, WhatIsLongIsCut) {
  EXPECT_EQ(shortened("abcde", 5), "abcde");
  EXPECT_EQ(shortened("abcdef", 5), "abcde... (6 characters)");
  EXPECT_EQ(shortened("aaaa\u20ac", 5), "aaaa... (7 characters)");
  EXPECT_EQ(shortened(std::string(10'000'000, 'x')),
            std::string(100, 'x') + "... (10000000 characters)");
  EXPECT_EQ(shortened_within("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(shortened_within("abcdefghijk", 4), "ab... (11 characters) ...jk");
  EXPECT_EQ(shortened_within("\u20ac\u20ac\u20ac", 4), "... (9 characters) ...");
}

TEST(Text, OneIsNotMany) {
  EXPECT_EQ(counted(0, "call"), "0 calls");
  EXPECT_EQ(counted(1, "call"), "1 call");
  EXPECT_EQ(counted(2, "call"), "2 calls");
}

// Whoever throws them, and whatever they quote.
TEST(Text, ErrorsArePrintableAndNotEndless) {
  EXPECT_STREQ(Error(ncclInvalidArgument, "name \"\x1b[2J\"\n").what(), "name \"\\x1b[2J\"\\n");
  const std::string long_text(10'000'000, 'x');
  const Error e(ncclInvalidArgument, "scheme \"" + long_text + "\": why");
  EXPECT_LT(e.message.size(), 5000u);
  EXPECT_EQ(e.message.find("scheme \"xxx"), 0u);
  EXPECT_TRUE(e.message.ends_with("xxx\": why"));
  EXPECT_NE(e.message.find("... (10000014 characters) ..."), std::string::npos);
}

TEST(Text, LogLinesArePrintable) {
  testing::internal::CaptureStderr();
  write_log(LogLevel::kError, 0, "communicator \"\x1b]0;x\x07\nhost:1:1 terse ERROR\"");
  note({}, "\x9b");
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_NE(lines.find("ERROR communicator \"\\x1b]0;x\\x07\\nhost:1:1 terse ERROR\"\n"),
            std::string::npos)
      << lines;
  EXPECT_TRUE(lines.ends_with("NOTE \\x9b\n")) << lines;
}

}  // namespace
}  // namespace terse
