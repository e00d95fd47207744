#include "engine/comm/reservations.h"

#include <algorithm>

namespace terse {

Amounts Reservations::of(const NeedKind& kind) const {
  const auto found = prepared_.find(kind);
  return found == prepared_.end() ? Amounts{} : found->second;
}

bool Reservations::cover(const NeedKind& kind, const Amounts& amounts) const {
  const Amounts known = of(kind);
  return amounts.scratch <= known.scratch && amounts.exact <= known.exact;
}

void Reservations::add(const NeedKind& kind, const Amounts& amounts) {
  Amounts& known = prepared_[kind];
  known.scratch = std::max(known.scratch, amounts.scratch);
  known.exact = std::max(known.exact, amounts.exact);
}

bool Reservations::skips() {
  if (skips_ == 0) return false;
  --skips_;
  return true;
}

bool Reservations::refused() {
  constexpr unsigned kMostSkips = 1023;
  skips_ = std::min(kMostSkips, (1u << std::min(refusals_, 10u)) - 1);
  return refusals_++ == 0;
}

}  // namespace terse
