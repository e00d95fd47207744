#include "plan/rng_key.h"

#include <algorithm>
#include <utility>

#include "plan/builder.h"

namespace terse::plan {
namespace {

class ByContent : Assembly {
 public:
  ByContent(Plan plan, bool repeats) : Assembly(std::move(plan)), repeats_(repeats) {}

  // A rank that packs nothing need not look; but it has the same room, as by the plans' sizes all
  // ranks decide alike.
  Plan build() {
    const Place content{Region::kScratch,
                        Chunks::round_up(plan_.scratch_bytes, Chunks::kAlignment)};
    plan_.scratch_bytes = content.offset + kFingerprintBytes;
    if (std::ranges::none_of(plan_.steps, packs_anything)) return std::move(plan_);
    std::vector<Step> steps = clear();
    Step look{"look", Lane::kEncode, {}, {}, {}};
    look.fingerprints = {
        {content, {Region::kSend, 0}, plan_.buffers.front().send_bytes, !repeats_}};
    // In place the result comes where it looks.
    const size_t looked = insert(std::move(look));
    for (Step& step : steps)
      for (Compute& compute : step.compute)
        if (packs(compute)) compute.rng_key = {content, repeats_};
    insert_behind(std::move(steps), looked);
    return finish();
  }

 private:
  static bool packs(const Compute& c) { return c.target_format != Format::kRaw; }
  static bool packs_anything(const Step& step) { return std::ranges::any_of(step.compute, packs); }

  const bool repeats_;
};

}  // namespace

Plan with_content_rng_key(Plan plan, bool repeats) {
  return ByContent(std::move(plan), repeats).build();
}

}  // namespace terse::plan
