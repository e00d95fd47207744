#include "plan/select.h"

namespace terse::plan {
namespace {

// Up to here a message costs its latency, and one step is better than two.
constexpr size_t kOneShotBytes = 64 * 1024;

}  // namespace

const char* name(Collective collective) {
  static constexpr const char* kNames[] = {"AllReduce", "AllGather", "ReduceScatter"};
  return kNames[static_cast<int>(collective)];
}

Selection select(Collective collective, const Shape& shape, Wish wish) {
  switch (collective) {
    case Collective::kAllGather:
      return {all_gather, "the only algorithm for AllGather"};
    case Collective::kReduceScatter:
      return {reduce_scatter, "the only algorithm for ReduceScatter"};
    case Collective::kAllReduce:
      break;
  }
  if (wish == Wish::kOneShot) return {one_shot_all_reduce, "the scheme says oneshot"};
  if (wish == Wish::kTwoShot) return {two_shot_all_reduce, "the scheme says twoshot"};
  if (shape.ranks == 2)
    return {one_shot_all_reduce, "two ranks: the same bytes as two-shot in one step"};
  if (shape.count * shape.element_bytes * shape.ranks <= kOneShotBytes)
    return {one_shot_all_reduce, "a small message: latency counts"};
  return {two_shot_all_reduce, "a large message: bytes count"};
}

}  // namespace terse::plan
