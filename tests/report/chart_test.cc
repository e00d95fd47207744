// Charts: that nothing is drawn outside of the axes, and that texts are texts.
#include "report/chart.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

namespace terse::report {
namespace {

// The space of the curves, in the SVG's units.
constexpr double kLeft = 66, kRight = 386, kTop = 44, kBottom = 294;

std::string shown(double value) { return fmt::format("{:.6g}", value); }

const Axis kBytes{"bytes", shown}, kTime{"time", shown};

std::string chart_of(const std::vector<Series>& series) {
  return chart("title", kBytes, kTime, series);
}

// What the pattern's groups are, of each match.
std::vector<std::vector<std::string>> all(const std::string& text, const char* pattern) {
  std::vector<std::vector<std::string>> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match)
    found.emplace_back(std::next(match->begin()), match->end());
  return found;
}

std::vector<std::string> polylines(const std::string& svg) {
  std::vector<std::string> points;
  for (const auto& match : all(svg, "<polyline points=\"([^\"]*)\"")) points.push_back(match[0]);
  return points;
}

TEST(Chart, CurvesAreOnLogarithmicAxes) {
  const std::string svg =
      chart_of({{"a", {{1, 1}, {10, 100}, {100, 10000}}}, {"b", {{10, 10}, {100, 1}}}});
  EXPECT_EQ(polylines(svg), (std::vector<std::string>{"66.0,294.0 226.0,169.0 386.0,44.0",
                                                      "226.0,231.5 386.0,294.0"}));
}

TEST(Chart, TextsAreEscaped) {
  const std::string svg =
      chart("<title> & \"more\"", {"<x>", shown}, {"&y", shown}, {{"<b>int8</b>", {{1, 1}}}});
  for (const char* text : {">&lt;title&gt; &amp; ", ">&lt;x&gt;</text>", ">&amp;y</text>",
                           ">&lt;b&gt;int8&lt;/b&gt;</text>"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_EQ(svg.find("<title>"), std::string::npos);
  EXPECT_EQ(svg.find("<b>"), std::string::npos);
}

TEST(Chart, EachSeriesHasACurveANameAndAColourOfItsOwn) {
  std::vector<Series> series;
  for (int i = 0; i < 8; ++i) series.push_back({fmt::format("series {}", i), {{1, 1 + i}, {2, 3}}});
  const std::string svg = chart_of(series);
  std::vector<std::string> colours;
  for (const auto& match : all(svg, "<polyline [^>]*stroke=\"(#[0-9a-f]+)\""))
    colours.push_back(match[0]);
  ASSERT_EQ(colours.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::ranges::count(colours, colours[i]), 1) << colours[i];
    EXPECT_NE(svg.find(fmt::format(">series {}</text>", i)), std::string::npos);
  }
}

// Whatever there is to see.
TEST(Chart, MarksAreFewAndWithinTheAxes) {
  const double ranges[][2] = {{1, 10},      {1, 1.01},    {0.3, 0.31}, {1e-9, 1e9}, {3, 3},
                              {65536, 1e9}, {1e-6, 2e-6}, {7, 70},     {2, 5}};
  for (const auto& x : ranges)
    for (const auto& y : ranges) {
      const std::string svg = chart_of({{"a", {{x[0], y[0]}, {x[1], y[1]}}}});
      size_t upright = 0, across = 0;
      for (const auto& line :
           all(svg, "<line x1=\"([^\"]*)\" y1=\"([^\"]*)\" x2=\"([^\"]*)\" y2=\"([^\"]*)\"")) {
        const double x1 = std::stod(line[0]), y1 = std::stod(line[1]);
        const double x2 = std::stod(line[2]), y2 = std::stod(line[3]);
        EXPECT_TRUE(x1 == x2 || y1 == y2);
        ++(x1 == x2 ? upright : across);
        for (const double at : {x1, x2}) EXPECT_TRUE(at >= kLeft && at <= kRight) << at;
        for (const double at : {y1, y2}) EXPECT_TRUE(at >= kTop && at <= kBottom) << at;
      }
      EXPECT_LE(upright, 5u);
      EXPECT_LE(across, 8u);
      for (const std::string& points : polylines(svg))
        for (const auto& point : all(points, "([^ ,]+),([^ ,]+)")) {
          EXPECT_TRUE(std::stod(point[0]) >= kLeft && std::stod(point[0]) <= kRight);
          EXPECT_TRUE(std::stod(point[1]) >= kTop && std::stod(point[1]) <= kBottom);
        }
    }
}

TEST(Chart, MarksSayTheirValues) {
  const std::string svg = chart_of({{"a", {{1, 2}, {100, 5}}}});
  std::vector<std::string> below, beside;
  for (const auto& match : all(svg, "y=\"310.0\" text-anchor=\"middle\">([^<]*)<"))
    below.push_back(match[0]);
  for (const auto& match : all(svg, "x=\"60.0\"[^>]*>([^<]*)<")) beside.push_back(match[0]);
  EXPECT_EQ(below, (std::vector<std::string>{"1", "5", "20", "100"}));
  EXPECT_EQ(beside, (std::vector<std::string>{"2", "5"}));
}

TEST(Chart, OnePointAndEqualValuesAreNumbersToo) {
  for (const std::vector<Series>& series : {std::vector<Series>{{"a", {{64, 3}}}},
                                            {{"a", {{64, 3}, {64, 3}}}},
                                            {{"a", {{1, 3}, {10, 3}, {100, 3}}}},
                                            {{"a", {{64, 3}}}, {"b", {}}}}) {
    const std::string svg = chart_of(series);
    EXPECT_EQ(polylines(svg).size(), series.size());
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
  EXPECT_EQ(polylines(chart_of({{"a", {{1, 3}, {10, 3}, {100, 3}}}})),
            std::vector<std::string>{"66.0,294.0 226.0,294.0 386.0,294.0"});
}

TEST(Chart, WithoutPointsIsEmpty) {
  const std::string svg = chart_of({{"a", {}}});
  EXPECT_EQ(polylines(svg), std::vector<std::string>{""});
  EXPECT_TRUE(all(svg, "<(line) ").empty());
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
}

}  // namespace
}  // namespace terse::report
