// Random numbers that the contributors to a sum share (correlated quantization, Suresh et al.,
// 2022).
//
// Rounding by a uniform u errs, on the mean over fractions, by u - 1/2. Contributors whose numbers
// always add up to the same cancel that part: the sum's error is that of rounding to nearest, and
// each number alone is still uniform. All contributors are in pairs, (u, 1 - u), but the last three
// if they are odd in number: (u, -2u, u + 1/2) modulo 1.
#pragma once

#include <optional>

#include "plan/plan.h"

namespace terse::plan {

// Share of the contributor at a place among `contributors`; rank_of(place) gives the rank there.
// Empty: there is no other one.
template <class RankOf>
std::optional<SharedDraw> shared_draw(size_t place, size_t contributors, const RankOf& rank_of) {
  if (contributors < 2) return {};
  const bool in_triple = contributors % 2 == 1 && place >= contributors - 3;
  const size_t first = in_triple ? contributors - 3 : place - place % 2;
  const Variate variates[] = {Variate::kOwn, in_triple ? Variate::kDoubled : Variate::kMirrored,
                              Variate::kShifted};
  return SharedDraw{static_cast<uint32_t>(rank_of(first)), variates[place - first]};
}

// Share of `self` where all of n ranks but `owner` contribute.
inline std::optional<SharedDraw> shared_draw_without(size_t owner, size_t self, size_t ranks) {
  return shared_draw(self < owner ? self : self - 1, ranks - 1,
                     [=](size_t place) { return place < owner ? place : place + 1; });
}

// Share of `self` where all of n ranks contribute.
inline std::optional<SharedDraw> shared_draw_of_all(size_t self, size_t ranks) {
  return shared_draw(self, ranks, [](size_t place) { return place; });
}

}  // namespace terse::plan
