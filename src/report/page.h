// What the page of `terse report --html` is made of.
#pragma once

#include <string>
#include <vector>

namespace terse::report {

// The style sheet, for light and dark.
extern const char* const kStyle;

// Text as HTML.
std::string escape(const std::string& text);

struct Bar {
  double value;        // infinite: as wide as can be
  const char* colour;  // of the style sheet
  std::string text;
};

// A line of a plot: thin bars above each other, with one name.
struct Line {
  std::string name;
  std::vector<Bar> bars;
};

// Bars from the left on a common scale, as SVG.
std::string plot(const std::vector<Line>& lines, int thickness);

}  // namespace terse::report
