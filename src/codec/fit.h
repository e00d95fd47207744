// How levels are fitted to a histogram of where elements lie in their blocks, from the smallest
// element to the largest. Within a bin they are taken to be spread evenly.
//
// Hosts and kernels add up the bins, which is exact in any order; the arithmetic of a level is
// here. Places are in bins, from 0 to kBins. Sums, of whatever bins have, are at(i): of all bins
// below i, 0 to kBins. Levels are at(j), as places.
#pragma once

#include "codec/portable.h"
#include "codec/spec.h"

namespace terse::codec {

constexpr uint32_t kBins = 1024;

// Bits of the sum of all bins' weights, to which they are shifted: sums of them, and of their
// moments, are then exact in fp64.
constexpr int kWeightBits = 40;

// Weight of an empty bin, 2^-28 of the whole, which keeps levels everywhere: later elements may lie
// where none was.
constexpr uint64_t kMinWeight = uint64_t{1} << (kWeightBits - 28);

TERSE_INLINE constexpr int bits_of(uint64_t x) {
  int bits = 0;
  for (; x != 0; x >>= 1) ++bits;
  return bits;
}

TERSE_INLINE constexpr uint64_t shifted_weight(uint64_t weight, int bits_of_total) {
  return kMinWeight + (bits_of_total > kWeightBits ? weight >> (bits_of_total - kWeightBits)
                                                   : weight << (kWeightBits - bits_of_total));
}

// About 0, in half bins.
TERSE_INLINE constexpr uint64_t moment_of(uint64_t weight, uint32_t bin) {
  return weight * (2 * bin + 1);
}

// How close levels lie at first: as the cube root of the weight, which is best where there are many
// of them.
TERSE_INLINE constexpr uint64_t density_of(uint64_t weight) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << (kWeightBits / 3); bit != 0; bit >>= 1) {
    const uint64_t more = root | bit;
    if (more * more * more <= weight) root = more;
  }
  return root;
}

// The place below which there is `part` of the whole.
template <class Sums>
TERSE_INLINE double place_of(const Sums& sums, double part) {
  uint32_t bin = 0;
  for (uint32_t step = kBins / 2; step != 0; step /= 2)
    if (sums.at(bin + step) <= part) bin += step;
  const double below = sums.at(bin), own = add(sums.at(bin + 1), -below);
  const double inside = own > 0 ? div(add(part, -below), own) : 0.0;
  return add(static_cast<double>(bin), inside < 1 ? inside : 1.0);
}

struct Mass {
  double weight, moment;
};

// Sums of all that lies below a place.
template <class Sums>
TERSE_INLINE Mass mass_below(const Sums& weights, const Sums& moments, double place) {
  const uint32_t bin = place < kBins ? static_cast<uint32_t>(place) : kBins - 1;
  const double first = bin, inside = add(place, -first), below = weights.at(bin);
  const double own = mul(add(weights.at(bin + 1), -below), inside);
  return {add(below, own), add(moments.at(bin), mul(own, add(add(first, first), inside)))};
}

template <class Sums>
TERSE_INLINE Mass mass_between(const Sums& weights, const Sums& moments, double low, double high) {
  const Mass a = mass_below(weights, moments, low), b = mass_below(weights, moments, high);
  return {add(b.weight, -a.weight), add(b.moment, -a.moment)};
}

TERSE_INLINE double bounded(double place, double low, double high) {
  return place > high ? high : place > low ? place : low;
}

// Returns the best level for the elements nearest to it, which lie from low to high: their mean.
// Keeps the level if there are none.
template <class Sums>
TERSE_INLINE double best_mean(const Sums& weights, const Sums& moments, double level, double low,
                              double high) {
  const Mass mass = mass_between(weights, moments, low, high);
  if (!(mass.weight > 0)) return level;
  return bounded(div(mul(0.5, mass.moment), mass.weight), low, high);
}

// Returns the best level between its neighbours, low and high, if elements take one of their
// neighbours at random so that the mean is right. A place v between neighbours a and b then costs
// (v - a) (b - v). The least cost for both sides of a level is where as much weight lies between
// low and it as the mean of (high - v) / (high - low) is of all between low and high.
template <class Sums>
TERSE_INLINE double best_balance(const Sums& weights, const Sums& moments, double level, double low,
                                 double high) {
  const Mass mass = mass_between(weights, moments, low, high);
  const double distance = add(high, -low);
  if (!(mass.weight > 0) || !(distance > 0)) return level;
  const double part = div(add(mul(high, mass.weight), -mul(0.5, mass.moment)), distance);
  const double below = mass_below(weights, moments, low).weight;
  return bounded(place_of(weights, add(below, part)), low, high);
}

// Returns true if the first level is the min element and the last one the max element.
TERSE_INLINE constexpr bool keeps_ends(Rounding rounding) { return rounding != Rounding::kNearest; }

// Initial place of level j of n.
template <class Sums>
TERSE_INLINE double first_place(const Sums& densities, uint32_t j, uint32_t n, Rounding rounding) {
  const double total = densities.at(kBins);
  if (!keeps_ends(rounding)) return place_of(densities, div(mul(total, 2.0 * j + 1.0), 2.0 * n));
  if (j == 0) return 0.0;
  return j + 1 < n ? place_of(densities, div(mul(total, j), n - 1.0)) : static_cast<double>(kBins);
}

// After so many steps the error is within 0.1 % of where it goes.
constexpr uint32_t kFitSteps = 256;

// Place of level j after a step. If levels depend on their neighbours, every other one moves.
template <class Sums, class Levels>
TERSE_INLINE double next_place(const Sums& weights, const Sums& moments, const Levels& levels,
                               uint32_t j, uint32_t n, Rounding rounding, uint32_t step) {
  const double level = levels.at(j);
  const bool first = j == 0, last = j + 1 == n;
  if (!keeps_ends(rounding)) {
    const double low = first ? 0.0 : mul(0.5, add(levels.at(j - 1), level));
    const double high = last ? kBins : mul(0.5, add(level, levels.at(j + 1)));
    return best_mean(weights, moments, level, low, high);
  }
  if (first || last || j % 2 == step % 2) return level;
  return best_balance(weights, moments, level, levels.at(j - 1), levels.at(j + 1));
}

TERSE_INLINE float level_of(double place) { return static_cast<float>(mul(place, 1.0 / kBins)); }

}  // namespace terse::codec
