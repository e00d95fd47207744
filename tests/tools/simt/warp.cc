#include "warp.h"

namespace terse::simt::internal {

void Warp::exchange() {
  for (uint32_t lane = 0; lane < kLanes; ++lane) got_[lane] = brought_[source_[lane]];
  arrived_ = 0;
}

void Warp::vote() {
  uint32_t mask = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) mask |= uint32_t{brought_[lane] != 0} << lane;
  got_.fill(mask);
  arrived_ = 0;
}

}  // namespace terse::simt::internal
