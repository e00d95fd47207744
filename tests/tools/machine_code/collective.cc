// What lanes of a warp, or threads of a block, do together.
#include <algorithm>

#include "arguments.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;

// WARPSYNC mask; WARPSYNC.COLLECTIVE mask, label: the lanes of the mask meet here, then go on
// together.
void warpsync(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Mask mask = of.has(kALL) ? kAllLanes : first_value(warp, in.next());
  if (of.has(kCOLLECTIVE) && in.next().kind != Kind::kLabel) warp.fail("a label was expected");
  in.end();
  warp.wait_at_warpsync(mask);
}

void end_collective(Warp& warp, const Instruction& of) { Arguments(warp, of).end(); }

void bar_sync(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  if (in.integer() != 0) warp.fail("a barrier is not known");
  in.end();
  warp.wait_for_block();
}

enum class Shuffle { kIndex, kButterfly, kDown };

// SHFL p, d, a, lane, clamp and segments; p: whether the source lane is in the segment.
template <Shuffle kind>
void shfl(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand &valid = in.next(), &to = in.next();
  const Lanes<uint32_t> a = in.word(), b = in.word(), c = in.word();
  in.end();
  Lanes<uint32_t> value{};
  Mask in_range = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if ((warp.executing() & bit(lane)) == 0) continue;
    const uint32_t clamp = c[lane] & 31, segment = c[lane] >> 8 & 31, by = b[lane] & 31;
    const uint32_t least = lane & segment, most = least | (clamp & ~segment);
    const uint32_t from = kind == Shuffle::kIndex       ? least | (by & ~segment)
                          : kind == Shuffle::kButterfly ? lane ^ by
                                                        : lane + by;
    const bool is_lane = from <= most;
    if (is_lane) {
      if ((warp.executing() & bit(from)) == 0)
        warp.fail(lane, "a shuffle from a lane that is away");
      in_range |= bit(lane);
    }
    value[lane] = a[is_lane ? from : lane];
  }
  warp.set(to, value);
  warp.set_predicate(valid, in_range);
}

// VOTE.ANY d, p, a: all for which a is true, and whether there is one.
void vote(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand &to = in.next(), &any = in.next();
  const Mask ballot = in.predicate() & warp.executing();
  in.end();
  warp.set(to, all_lanes(ballot));
  warp.set_predicate(any, ballot != 0 ? kAllLanes : 0);
}

void redux_max(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Lanes<uint32_t> a = in.word();
  in.end();
  uint32_t most = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    if (warp.executing() & bit(lane)) most = std::max(most, a[lane]);
  warp.set(to, all_lanes(most));
}

}  // namespace

std::span<const Rule> collective_rules() {
  static constexpr Rule kRules[] = {
      {"WARPSYNC", {kALL, kCOLLECTIVE}, warpsync},
      {"ENDCOLLECTIVE", {}, end_collective},
      {"BAR.SYNC", {kDEFER_BLOCKING}, bar_sync},
      {"SHFL.IDX", {}, shfl<Shuffle::kIndex>},
      {"SHFL.BFLY", {}, shfl<Shuffle::kButterfly>},
      {"SHFL.DOWN", {}, shfl<Shuffle::kDown>},
      {"VOTE.ANY", {}, vote},
      {"VOTEU.ANY", {}, vote},
      {"REDUX.MAX", {}, redux_max},
  };
  return kRules;
}

}  // namespace terse::machine
