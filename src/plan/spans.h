// Chunks whose parameters the ranks agree on together, so that small agreements do not hold up the
// sums between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace terse::plan {

struct Span {
  size_t first = 0, count = 0;  // chunks
};

// Spans of so many chunks: the first is one chunk, so that sums may begin; each later one is twice
// the one before, up to 8.
inline std::vector<Span> spans_of(size_t chunks) {
  constexpr size_t kMax = 8;
  std::vector<Span> spans;
  for (size_t first = 0; first < chunks; first += spans.back().count) {
    const size_t size = spans.empty() ? 1 : std::min(2 * spans.back().count, kMax);
    spans.push_back({first, std::min(size, chunks - first)});
  }
  return spans;
}

}  // namespace terse::plan
