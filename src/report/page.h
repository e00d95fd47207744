// Pages, and the parts of that of `terse report --html`.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace terse::report {

// A whole page for all sizes of screens, light or dark: `title` is a text, `body` is HTML.
std::string page(const std::string& title, const std::string& body);

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

// A cell of a map, with what a pointer over it shows.
struct Cell {
  double value;  // NaN: none
  std::string text;
};

// Cells in lines, darker where the value is larger.
std::string heat_map(const std::vector<Cell>& cells);

// Course of a number: its mean, and its worst, in a narrow strip, as SVG.
struct Strip {
  std::vector<std::pair<double, double>> mean, worst;  // by rising x
  std::string (*show_x)(double);
  std::string (*show_y)(double);
};
std::string strip(const Strip& strip);

// Bars from the left on a common scale, each between its line's name and its text, however wide the
// page is.
std::string plot(const std::vector<Line>& lines, int thickness);

}  // namespace terse::report
