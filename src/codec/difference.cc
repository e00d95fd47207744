#include "codec/difference.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace terse::codec {
namespace {

template <class T>
Difference compare_as(const Comparison& work) {
  const auto load = [](const void* data, size_t i) {
    T element;
    std::memcpy(&element, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
    return to_float(element);
  };
  Difference d;
  for (size_t i = 0; i < work.count; ++i) include(d, load(work.value, i), load(work.exact, i));
  return d;
}

}  // namespace

void compare(const Comparison& work) {
  static constexpr Difference (*kByDtype[])(const Comparison&) = {
      &compare_as<float>, &compare_as<half_t>, &compare_as<bfloat_t>};
  static_assert(std::size(kByDtype) == kDtypes);
  std::fill_n(work.parts, kDifferenceParts, Difference{});
  work.parts[0] = kByDtype[static_cast<size_t>(work.dtype)](work);
}

Difference total(const Difference* parts) {
  Difference sum;
  for (uint32_t i = 0; i < kDifferenceParts; ++i) include(sum, parts[i]);
  return sum;
}

}  // namespace terse::codec
