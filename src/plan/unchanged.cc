#include "plan/unchanged.h"

#include <utility>

#include "plan/builder.h"

namespace terse::plan {
namespace {

class ByContent : Assembly {
 public:
  ByContent(Plan plan, const Shape& shape) : Assembly(std::move(plan)), shape_(shape) {}

  Plan build() {
    std::vector<Step> steps = clear();
    const Place content{Region::kScratch,
                        Chunks::round_up(plan_.scratch_bytes, Chunks::kAlignment)};
    plan_.scratch_bytes = content.offset + kFingerprintBytes;
    Step look{"look", Lane::kEncode, {}, {}, {}};
    look.fingerprints = {{content, {Region::kSend, 0}, shape_.count * shape_.element_bytes}};
    insert(std::move(look));
    for (Step& step : steps)
      for (Compute& compute : step.compute)
        if (compute.target_format != Format::kRaw) compute.redraw = content;
    insert_behind(std::move(steps));
    return finish();
  }

 private:
  const Shape& shape_;
};

}  // namespace

Plan drawn_by_content(Plan plan, const Shape& shape) {
  return ByContent(std::move(plan), shape).build();
}

}  // namespace terse::plan
