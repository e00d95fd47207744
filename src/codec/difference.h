// How far a result is from the exact one, element by element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/float16.h"
#include "codec/spec.h"

namespace terse::codec {

// Sums over the elements of which both values are finite, in double precision; the others are
// counted where one value is finite and the other is not.
struct Difference {
  double squares = 0;        // of value - exact
  double exact_squares = 0;  // of exact
  double largest = 0;        // magnitude of value - exact
  uint64_t lost = 0;         // finite, where the exact value is a NaN or infinite
  uint64_t spread = 0;       // the other way round
};

TERSE_INLINE void include(Difference& d, float value, float exact) {
  const bool value_finite = is_finite(value), exact_finite = is_finite(exact);
  if (!value_finite || !exact_finite) {
    d.lost += value_finite ? 1 : 0;
    d.spread += exact_finite ? 1 : 0;
    return;
  }
  const double x = exact, difference = static_cast<double>(value) - x;
  const double magnitude = difference < 0 ? -difference : difference;
  d.squares = add(d.squares, mul(difference, difference));
  d.exact_squares = add(d.exact_squares, mul(x, x));
  d.largest = d.largest < magnitude ? magnitude : d.largest;
}

TERSE_INLINE void include(Difference& d, const Difference& other) {
  d.squares += other.squares;
  d.exact_squares += other.exact_squares;
  d.largest = d.largest < other.largest ? other.largest : d.largest;
  d.lost += other.lost;
  d.spread += other.spread;
}

// The parts add up to the difference. Buffers of any alignment.
constexpr uint32_t kDifferenceParts = 128;
struct Comparison {
  const void* value;
  const void* exact;
  uint64_t count;  // elements
  Dtype dtype;
  Difference* parts;  // kDifferenceParts, all of which are written
};

// Compares on the host.
void compare(const Comparison& work);
Difference total(const Difference* parts);

}  // namespace terse::codec
