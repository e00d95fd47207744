#include "plan/plan.h"

#include <algorithm>

namespace terse::plan {

bool changes_format(const Compute& c) {
  const auto is_other = [&](const Input& in) {
    return in.format != Format::kRaw && in.format != c.target_format;
  };
  return c.target_format != Format::kRaw && std::ranges::any_of(c.inputs, is_other);
}

size_t Shape::bytes(Format format, size_t elements) const {
  if (format == Format::kRaw) return elements * element_bytes;
  return (format == Format::kPacked ? packing : within.packing).bytes(elements);
}

}  // namespace terse::plan
