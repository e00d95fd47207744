#include "plant.h"

#include <fmt/format.h>

namespace terse::simt {

std::string to_string(const Plant& plant) {
  const std::string site = to_string(plant.site);
  switch (plant.mistake) {
    case Mistake::kNoBarrier:
      return fmt::format("the barrier at {} is left out", site);
    case Mistake::kWrongLane:
      return fmt::format("the shuffle at {} reads from a neighbouring lane", site);
    case Mistake::kStoresFurther:
      return fmt::format("the store at {} is one element further", site);
    case Mistake::kLoadsFurther:
      return fmt::format("the load at {} is one element further", site);
    case Mistake::kNoRelease:
      return fmt::format("the release at {} orders nothing", site);
    case Mistake::kNoAcquire:
      return fmt::format("the acquire at {} orders nothing", site);
  }
  return "";
}

}  // namespace terse::simt
