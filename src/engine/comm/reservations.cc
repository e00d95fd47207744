#include "engine/comm/reservations.h"

#include <algorithm>

namespace terse {

bool Reservations::cover(const Amounts& amounts) const {
  return amounts.scratch <= prepared_.scratch && amounts.exact <= prepared_.exact;
}

void Reservations::add(const Amounts& amounts) {
  prepared_.scratch = std::max(prepared_.scratch, amounts.scratch);
  prepared_.exact = std::max(prepared_.exact, amounts.exact);
}

bool Reservations::skips() {
  if (skips_ == 0) return false;
  --skips_;
  return true;
}

bool Reservations::refused() {
  constexpr unsigned kMaxSkips = 1023;
  skips_ = std::min(kMaxSkips, (1u << std::min(refusals_, 10u)) - 1);
  return refusals_++ == 0;
}

}  // namespace terse
