#include "plan/select.h"

#include <iterator>

namespace terse::plan {
namespace {

// Up to here a message costs its latency, and one step is better than two.
constexpr size_t kOneShotBytes = 64 * 1024;

// Two algorithms, of which the direct one sends more in fewer steps.
struct Pair {
  Plan (*direct)(const Shape& shape);
  Plan (*two_step)(const Shape& shape);
  const char* of_two;  // why two ranks take the direct one
};

constexpr Pair kAllReduce{one_shot_all_reduce, two_shot_all_reduce,
                          "two ranks: the same bytes as two-shot in one step"};
constexpr Pair kBroadcast{direct_broadcast, shared_broadcast, "two ranks: nobody to share with"};
constexpr Pair kReduce{direct_reduce, two_shot_reduce,
                       "two ranks: no more bytes than two-shot, in one step"};

template <const Pair& pair>
Selection choose(const Shape& shape, Wish wish) {
  if (wish == Wish::kOneShot) return {pair.direct, "the scheme says oneshot"};
  if (wish == Wish::kTwoShot) return {pair.two_step, "the scheme says twoshot"};
  if (shape.ranks == 2) return {pair.direct, pair.of_two};
  if (shape.count * shape.element_bytes * shape.ranks <= kOneShotBytes)
    return {pair.direct, "a small message: latency counts"};
  return {pair.two_step, "a large message: bytes count"};
}

template <Plan (*build)(const Shape& shape)>
Selection only(const Shape&, Wish) {
  return {build, "the only algorithm for it"};
}

// In the order of Collective.
constexpr Selection (*kSelect[])(const Shape& shape, Wish wish) = {
    choose<kAllReduce>, only<all_gather>, only<reduce_scatter>, only<all_to_all>,
    choose<kBroadcast>, choose<kReduce>,  only<gather>,         only<scatter>,
    only<send>,         only<receive>};
static_assert(std::size(kSelect) == kCollectives);

}  // namespace

Selection select(Collective collective, const Shape& shape, Wish wish) {
  return kSelect[static_cast<size_t>(collective)](shape, wish);
}

}  // namespace terse::plan
