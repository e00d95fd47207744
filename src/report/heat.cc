#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/page.h"

namespace terse::report {
namespace {

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = 0;

  void add(double x) {
    if (!std::isfinite(x)) return;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  // 0 to 1; what is infinite is at the end, and all are where there is one value.
  double at(double x) const {
    if (!std::isfinite(x) || most <= least) return 1;
    return (x - least) / (most - least);
  }
};

using Points = std::vector<std::pair<double, double>>;

std::string polyline(const Points& points, const Range& x, const Range& y, double width,
                     double height, const char* colour) {
  std::string path;
  for (const auto& [a, b] : points)
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", 2 + (width - 4) * x.at(a),
                        height - 2 - (height - 4) * b / y.most);
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke-width=\"2\" style=\"stroke: "
      "var(--{})\"/>\n",
      path, colour);
}

}  // namespace

std::string heat_map(const std::vector<Cell>& cells) {
  constexpr double kFaintest = 0.08;
  Range range;
  for (const Cell& cell : cells) range.add(cell.value);
  std::string text = "<div class=\"scroll\"><div class=\"heat\">\n";
  for (const Cell& cell : cells) {
    const std::string title = escape(cell.text);
    text += std::isnan(cell.value)
                ? fmt::format("<i class=\"none\" tabindex=\"0\" title=\"{}\"></i>\n", title)
                : fmt::format("<i style=\"--of:{:.2f}\" tabindex=\"0\" title=\"{}\"></i>\n",
                              kFaintest + (1 - kFaintest) * range.at(cell.value), title);
  }
  return text + "</div></div>\n";
}

std::string strip(const Strip& s) {
  constexpr double kStripWidth = 400, kStripHeight = 90;
  Range x, y;
  for (const Points* points : {&s.mean, &s.worst})
    for (const auto& [a, b] : *points) x.add(a), y.add(b);
  if (s.mean.size() < 2 || y.most == 0) return "";
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kStripWidth, kStripHeight + 18) +
         polyline(s.worst, x, y, kStripWidth, kStripHeight, "faint") +
         polyline(s.mean, x, y, kStripWidth, kStripHeight, "bar") +
         fmt::format(
             "<text class=\"soft\" x=\"2\" y=\"12\">{}</text>\n"
             "<text class=\"soft\" x=\"2\" y=\"{}\">{}</text>\n"
             "<text class=\"soft\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n</svg>\n",
             s.show_y(y.most), kStripHeight + 14, s.show_x(x.least), kStripWidth - 2,
             kStripHeight + 14, s.show_x(x.most));
}

}  // namespace terse::report
