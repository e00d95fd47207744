#include "plan/rng_key.h"

#include <algorithm>
#include <utility>

#include "plan/builder.h"

namespace terse::plan {
namespace {

class ByContent : Assembly {
 public:
  ByContent(Plan plan, bool repeats) : Assembly(std::move(plan)), repeats_(repeats) {}

  // A rank that packs nothing by its content does not look at it; but it has the same scratch, by
  // whose size all ranks decide alike.
  Plan build() {
    const Place content{Region::kScratch,
                        Chunks::round_up(plan_.scratch_bytes, Chunks::kAlignment)};
    plan_.scratch_bytes = content.offset + kFingerprintBytes;
    const bool looks = std::ranges::any_of(plan_.steps, needs_content);
    std::vector<Step> steps = clear();
    Step look{.name = "look", .lane = Lane::kEncode};
    look.fingerprints = {
        {content, {Region::kSend, 0}, plan_.buffers.front().send_bytes, !repeats_}};
    // The result of an in-place call overwrites what is looked at.
    const size_t looked = looks ? insert(std::move(look)) : kNone;
    for (Step& step : steps)
      for (Compute& compute : step.compute)
        if (packs(compute)) compute.rng_key = key_of(compute, content);
    insert_behind(std::move(steps), looked);
    return finish();
  }

 private:
  static bool packs(const Compute& c) { return c.target_format != Format::kRaw; }
  static bool needs_content(const Step& step) {
    return std::ranges::any_of(step.compute,
                               [](const Compute& c) { return packs(c) && !c.shared_draw; });
  }

  // Ranks that share a draw send different elements: no content in their key.
  RngKey key_of(const Compute& c, const Place& content) const {
    if (c.shared_draw) return {};
    return {content, repeats_};
  }

  const bool repeats_;
};

}  // namespace

Plan with_content_rng_key(Plan plan, bool repeats) {
  return ByContent(std::move(plan), repeats).build();
}

}  // namespace terse::plan
