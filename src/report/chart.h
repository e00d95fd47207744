// Curves on logarithmic axes, as SVG.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace terse::report {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // above 0, by rising x
};

struct Axis {
  std::string title;
  std::string (*show)(double value);
};

// A whole SVG document, which may also stand in a page. At most eight series have colours of their
// own.
std::string chart(const std::string& title, const Axis& x, const Axis& y,
                  const std::vector<Series>& series);

}  // namespace terse::report
