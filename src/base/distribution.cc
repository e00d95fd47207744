#include "base/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace terse {

void Distribution::add(double x) {
  if (x == 0) {
    ++zeros;
  } else if (std::isinf(x)) {
    ++infinite;
  } else {
    const double place = std::floor(std::log2(x) * kClassesPerOctave);
    ++classes[static_cast<int>(std::clamp<double>(place, -kLastClass - 1, kLastClass))];
    least = least == 0 ? x : std::min(least, x);
    largest = std::max(largest, x);
  }
}

void Distribution::add(const Distribution& other) {
  zeros += other.zeros;
  infinite += other.infinite;
  for (const auto& [place, count] : other.classes) classes[place] += count;
  if (other.least != 0) least = least == 0 ? other.least : std::min(least, other.least);
  largest = std::max(largest, other.largest);
}

uint64_t Distribution::count() const {
  uint64_t sum = zeros + infinite;
  for (const auto& [place, count] : classes) sum += count;
  return sum;
}

double Distribution::percentile(unsigned percent) const {
  const uint64_t all = count();
  uint64_t left = std::max<uint64_t>((all * percent + 99) / 100, 1);  // the nearest rank
  if (left <= zeros || all == 0) return 0;
  if (left > all - infinite) return std::numeric_limits<double>::infinity();
  if (left == all - infinite) return largest;
  left -= zeros;
  auto at = classes.begin();
  for (; left > at->second; ++at) left -= at->second;
  const double middle = std::exp2((at->first + 0.5) / kClassesPerOctave);
  return std::max(least, std::min(middle, largest));
}

}  // namespace terse
