#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "report/page.h"

namespace terse::report {
namespace {

// Narrow enough that a phone shows the text at its size: names of series are below the plot.
constexpr double kWidth = 400, kLeft = 66, kRight = 386, kTop = 44, kBottom = 294;
constexpr double kLineHeight = 18;
constexpr size_t kMostAcross = 5, kMostUp = 8;  // marks
constexpr const char* kColours[] = {"#555555", "#0072b2", "#d55e00", "#009e73",
                                    "#cc79a7", "#e69f00", "#56b4e9", "#8c564b"};

// Scale from the values' powers of ten to lengths.
class Scale {
 public:
  Scale(double first, double last) : first_(first), last_(last) {}

  void add(double value) {
    least_ = std::min(least_, std::log10(value));
    most_ = std::max(most_, std::log10(value));
  }
  double at(double value) const {
    const double width = std::max(most_ - least_, 1e-9);
    return first_ + (last_ - first_) * (std::log10(value) - least_) / width;
  }
  // Values that are 1, 2 or 5 times a power of ten.
  std::vector<double> marks(size_t max) const {
    if (least_ > most_) return {};  // nothing was added
    std::vector<double> all;
    for (int power = static_cast<int>(std::floor(least_)); power <= most_; ++power)
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10.0, power), place = std::log10(value);
        if (place >= least_ - 1e-9 && place <= most_ + 1e-9) all.push_back(value);
      }
    const size_t step = all.empty() ? 1 : (all.size() - 1) / max + 1;
    std::vector<double> some;
    for (size_t i = 0; i < all.size(); i += step) some.push_back(all[i]);
    return some;
  }

 private:
  double first_, last_;
  double least_ = std::numeric_limits<double>::max(), most_ = std::numeric_limits<double>::lowest();
};

std::string text(double x, double y, const char* anchor, const std::string& words) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape(words));
}

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#dddddd\"/>\n", x1,
      y1, x2, y2);
}

std::string curve(const Series& s, const Scale& x, const Scale& y, const char* colour) {
  std::string path;
  for (const auto& [a, b] : s.points)
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x.at(a), y.at(b));
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                     path, colour);
}

}  // namespace

std::string chart(const std::string& title, const Axis& x_axis, const Axis& y_axis,
                  const std::vector<Series>& series) {
  Scale x(kLeft, kRight), y(kBottom, kTop);
  for (const Series& s : series)
    for (const auto& [a, b] : s.points) {
      x.add(a);
      y.add(b);
    }
  const double height = kBottom + 48 + kLineHeight * static_cast<double>(series.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" role=\"img\" font-family=\"system-ui, DejaVu Sans, sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, height);
  svg += text(6, 18, "start", title);
  for (const double mark : x.marks(kMostAcross))
    svg += line(x.at(mark), kTop, x.at(mark), kBottom) +
           text(x.at(mark), kBottom + 16, "middle", x_axis.show(mark));
  for (const double mark : y.marks(kMostUp))
    svg += line(kLeft, y.at(mark), kRight, y.at(mark)) +
           text(kLeft - 6, y.at(mark) + 4, "end", y_axis.show(mark));
  svg += text(kRight, kBottom + 34, "end", x_axis.title);
  svg += text(6, 36, "start", y_axis.title);
  for (size_t i = 0; i < series.size(); ++i) {
    const char* const colour = kColours[i % std::size(kColours)];
    const double at = kBottom + 52 + kLineHeight * static_cast<double>(i);
    svg += curve(series[i], x, y, colour);
    svg += fmt::format("<rect x=\"{}\" y=\"{:.0f}\" width=\"14\" height=\"4\" fill=\"{}\"/>\n",
                       kLeft, at - 6, colour);
    svg += text(kLeft + 20, at, "start", series[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace terse::report
