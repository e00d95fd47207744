#include "model/profile.h"

#include <algorithm>

namespace terse::model {

double Curve::seconds(size_t bytes) const {
  const auto after = std::ranges::upper_bound(points, bytes, {}, &Point::bytes);
  if (after == points.begin()) return points.front().seconds;
  const Point& from = *(after - 1);
  double rise = 0;  // of a byte
  if (points.size() > 1) {
    const auto b = std::min(after, points.end() - 1), a = b - 1;
    rise = (b->seconds - a->seconds) / static_cast<double>(b->bytes - a->bytes);
  }
  // Extrapolates: one point, or noise, does not say what more bytes take, so as much as those did,
  // and never less than half as much, for nothing that was not measured is nearly free.
  if (after == points.end()) {
    const double average = from.seconds / static_cast<double>(from.bytes);
    rise = rise <= 0 ? average : std::max(rise, average / 2);
  }
  return from.seconds + rise * static_cast<double>(bytes - from.bytes);
}

const Curve* Profile::curve(plan::Collective collective, codec::Dtype dtype, int ranks, int nodes,
                            std::string_view scheme, bool fused) const {
  const Curve* found = nullptr;
  int best = 0;
  for (const Curve& c : measured) {
    if (c.collective != collective || c.ranks != ranks || c.nodes != nodes || c.scheme != scheme ||
        codec::dtype_size(c.dtype) != codec::dtype_size(dtype))
      continue;
    const int likeness = 1 + 2 * (c.fused == fused) + (c.dtype == dtype);
    if (likeness > best || (likeness == best && c.dtype != dtype)) {
      best = likeness;
      found = &c;
    }
  }
  return found;
}

}  // namespace terse::model
