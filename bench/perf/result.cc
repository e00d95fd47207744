#include "result.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace terse::perf {
namespace {

double nearest_rank(const std::vector<double>& sorted, std::size_t percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::min(sorted.size(), std::max<std::size_t>(rank, 1)) - 1];
}

}  // namespace

IterationStats summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto n = static_cast<double>(times.size());
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / n;
  double variance = 0;
  for (const double time : times) variance += (time - mean) * (time - mean) / n;
  return {times.front(),
          times.back(),
          mean,
          times[times.size() / 2],
          nearest_rank(times, 95),
          nearest_rank(times, 99),
          std::sqrt(variance)};
}

}  // namespace terse::perf
