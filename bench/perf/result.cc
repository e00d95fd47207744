#include "result.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace terse::perf {
namespace {

double NearestRank(const std::vector<double>& sorted, std::size_t percent) {
  const std::size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[std::min(sorted.size(), std::max<std::size_t>(rank, 1)) - 1];
}

}  // namespace

IterationStats Summarize(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto n = static_cast<double>(times.size());
  const double mean = std::accumulate(times.begin(), times.end(), 0.0) / n;
  double variance = 0;
  for (const double time : times) variance += (time - mean) * (time - mean) / n;
  return {times.front(),           times.back(),           mean,
          times[times.size() / 2], NearestRank(times, 95), NearestRank(times, 99),
          std::sqrt(variance)};
}

}  // namespace terse::perf
