#include "plan/own.h"

#include <algorithm>
#include <utility>

#include "plan/builder.h"

namespace terse::plan {
namespace {

class OwnKept : Assembly {
 public:
  OwnKept(Plan plan, const Shape& shape) : Assembly(std::move(plan)), shape_(shape) {}

  Plan build() {
    const size_t bytes = shape_.count * shape_.element_bytes;
    const Place own{Region::kRecv, shape_.rank * bytes};
    const auto is_own = [&](const Compute& c) {
      return c.target.region == own.region && c.target.offset >= own.offset &&
             c.target.offset < own.offset + bytes;
    };
    for (Step& step : clear()) {
      std::erase_if(step.compute, is_own);
      insert(std::move(step));
    }
    Step keep{"keep", Lane::kDecode, {}, {}, {}};
    keep.copies = {{own, {Region::kSend, 0}, bytes}};
    insert(std::move(keep));
    return finish();
  }

 private:
  const Shape& shape_;
};

}  // namespace

Plan own_shard_kept(Plan plan, const Shape& shape) {
  return OwnKept(std::move(plan), shape).build();
}

}  // namespace terse::plan
