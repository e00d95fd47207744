// How a number of zero and more goes on, in bounded memory: points in order, each of as many
// numbers. Where there would be too many points, two become one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace terse {

struct DownsampledSeries {
  static constexpr size_t kMaxPoints = 64;

  struct Point {
    uint64_t at = 0;     // where its first number is, as the caller counts
    uint64_t count = 0;  // numbers
    double sum = 0, greatest = 0;

    double mean() const { return sum / static_cast<double>(count); }
    bool operator==(const Point&) const = default;
  };

  uint64_t each = 1;  // numbers of a point; the last one may still have fewer
  std::vector<Point> points;

  // A finite number, at a place behind all others.
  void add(uint64_t at, double x);
  // The numbers of another one, which has seen the same places, or some of them.
  void merge(DownsampledSeries other);

  bool operator==(const DownsampledSeries&) const = default;

 private:
  void halve();
};

}  // namespace terse
