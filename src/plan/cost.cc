#include "plan/cost.h"

#include <algorithm>

#include "plan/chunks.h"

namespace terse::plan::cost {
namespace {

size_t others(const Shape& s) { return static_cast<size_t>(s.ranks) - 1; }
bool is_root(const Shape& s) { return s.rank == s.root; }

size_t packed(const Shape& s, size_t count) { return count == 0 ? 0 : s.packing.bytes(count); }

// A message in shards of equal length, in whole blocks; the last ones may be short or empty.
class Shards {
 public:
  Shards(const Shape& s, size_t owners)
      : s_(s), length_(Chunks::round_up((s.count + owners - 1) / owners, s.packing.quantum)) {}

  size_t bytes(size_t owner) const {
    const size_t first = std::min(owner * length_, s_.count);
    return packed(s_, std::min(length_, s_.count - first));
  }
  size_t all_bytes() const {
    return s_.count / length_ * packed(s_, length_) + packed(s_, s_.count % length_);
  }

 private:
  const Shape& s_;
  const size_t length_;
};

}  // namespace

Cost to_each_other(const Shape& s) { return {1, others(s) * packed(s, s.count)}; }

Cost to_root(const Shape& s) { return {1, is_root(s) ? 0 : packed(s, s.count)}; }

Cost from_root(const Shape& s) { return {1, is_root(s) ? others(s) * packed(s, s.count) : 0}; }

Cost two_shots(const Shape& s) {
  const Shards shards(s, static_cast<size_t>(s.ranks));
  const size_t own = shards.bytes(static_cast<size_t>(s.rank));
  return {2, shards.all_bytes() - own + others(s) * own};
}

Cost two_shots_to_root(const Shape& s) {
  const Shards shards(s, static_cast<size_t>(s.ranks));
  const size_t own = shards.bytes(static_cast<size_t>(s.rank));
  return {2, shards.all_bytes() - (is_root(s) ? own : 0)};
}

Cost shared_from_root(const Shape& s) {
  const Shards shards(s, others(s));
  if (is_root(s)) return {2, shards.all_bytes()};
  const auto own = static_cast<size_t>(s.rank - s.root - 1 + s.ranks) % s.ranks;
  return {2, (others(s) - 1) * shards.bytes(own)};
}

Cost message(const Shape& s) { return {1, packed(s, s.count)}; }

Cost nothing(const Shape&) { return {1, 0}; }

}  // namespace terse::plan::cost
