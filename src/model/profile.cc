#include "model/profile.h"

#include <algorithm>

namespace terse::model {

double Curve::seconds(size_t bytes) const {
  const auto after = std::ranges::upper_bound(points, bytes, {}, &Point::bytes);
  if (after == points.begin() || points.size() == 1) return points.front().seconds;
  const auto end = after == points.end() ? after - 1 : after;
  const Point &a = *(end - 1), &b = *end;
  const double slope = (b.seconds - a.seconds) / static_cast<double>(b.bytes - a.bytes);
  // What is larger takes no less time, whatever the noise.
  const double rise = bytes > b.bytes ? std::max(slope, 0.0) : slope;
  const Point& from = bytes > b.bytes ? b : a;
  return from.seconds + rise * static_cast<double>(bytes - from.bytes);
}

const Curve* Profile::curve(plan::Collective collective, codec::Dtype dtype, int ranks, int nodes,
                            std::string_view scheme) const {
  const Curve* found = nullptr;
  for (const Curve& c : measured) {
    if (c.collective != collective || c.ranks != ranks || c.nodes != nodes || c.scheme != scheme)
      continue;
    if (c.dtype == dtype) return &c;
    if (codec::dtype_size(c.dtype) == codec::dtype_size(dtype)) found = &c;
  }
  return found;
}

}  // namespace terse::model
