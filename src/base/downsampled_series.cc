#include "base/downsampled_series.h"

#include <algorithm>

namespace terse {
namespace {

void include(DownsampledSeries::Point& point, const DownsampledSeries::Point& other) {
  point.count += other.count;
  point.sum += other.sum;
  point.greatest = std::max(point.greatest, other.greatest);
}

}  // namespace

void DownsampledSeries::halve() {
  each *= 2;
  for (size_t i = 0; 2 * i < points.size(); ++i) {
    points[i] = points[2 * i];
    if (2 * i + 1 < points.size()) include(points[i], points[2 * i + 1]);
  }
  points.resize((points.size() + 1) / 2);
}

void DownsampledSeries::add(uint64_t at, double x) {
  if (points.empty() || points.back().count == each) {
    if (points.size() == kMaxPoints) halve();
    points.push_back({.at = at});
  }
  include(points.back(), {.count = 1, .sum = x, .greatest = x});
}

void DownsampledSeries::merge(DownsampledSeries other) {
  while (each < other.each) halve();
  while (other.each < each) other.halve();
  for (const Point& point : other.points) {
    const auto place = std::ranges::lower_bound(points, point.at, {}, &Point::at);
    if (place != points.end() && place->at == point.at)
      include(*place, point);
    else
      points.insert(place, point);
  }
  while (points.size() > kMaxPoints) halve();
}

}  // namespace terse
