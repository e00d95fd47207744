// The lanes of a warp, meeting at its collectives.
#pragma once

#include <array>
#include <cstdint>

namespace terse::simt::internal {

constexpr uint32_t kLanes = 32;

class Warp {
 public:
  // A lane brings a value and the lane whose value it wants. True: all lanes are there.
  bool arrive(uint32_t lane, uint32_t value, uint32_t source) {
    brought_[lane] = value;
    source_[lane] = source;
    return ++arrived_ == kLanes;
  }

  // What the lanes get, which is theirs until all of them meet again.
  void exchange();
  void vote();  // the mask of the lanes that brought something other than 0
  uint32_t got(uint32_t lane) const { return got_[lane]; }

 private:
  uint32_t arrived_ = 0;
  std::array<uint32_t, kLanes> brought_, source_, got_;
};

}  // namespace terse::simt::internal
