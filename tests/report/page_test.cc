// Parts of pages.
#include "report/page.h"

#include <gtest/gtest.h>

#include <cmath>

namespace terse::report {
namespace {

// Of the largest one, between the line's name and its own text.
TEST(Plot, BarsAreSharesOfTheLargest) {
  EXPECT_EQ(
      plot({{"a < b", {{1, "bar", "1 s"}, {4, "faint", "4 s"}}}, {"c", {{2, "bar", "2 s"}}}}, 13),
      "<div class=\"bars\">\n"
      "<b>a &lt; b</b><i title=\"a &lt; b: 1 s\" style=\"width: 25.0%; height: 11px; background: "
      "var(--bar)\"></i><span>1 s</span>\n"
      "<b></b><i title=\"a &lt; b: 4 s\" style=\"width: 100.0%; height: 11px; background: "
      "var(--faint)\"></i><span>4 s</span>\n"
      "<b>c</b><i title=\"c: 2 s\" style=\"width: 50.0%; height: 11px; background: "
      "var(--bar)\"></i><span>2 s</span>\n</div>\n");
}

TEST(Plot, InfiniteBarsAreAsWideAsCanBe) {
  const std::string text = plot({{"a", {{INFINITY, "bar", "inf"}, {0, "bar", "0"}}}}, 13);
  EXPECT_NE(text.find("width: 100.0%"), std::string::npos);
  EXPECT_NE(text.find("width: 0.0%"), std::string::npos);
}

TEST(Page, HasItsTitleAndBody) {
  const std::string text = page("a & b", "<p>c</p>\n");
  EXPECT_NE(text.find("<title>a &amp; b</title>"), std::string::npos);
  EXPECT_NE(text.find("<h1>a &amp; b</h1>\n<p>c</p>\n</main>"), std::string::npos);
}

}  // namespace
}  // namespace terse::report
