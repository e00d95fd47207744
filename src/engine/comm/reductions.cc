#include "engine/comm/reductions.h"

namespace terse {

void Operators::add(ncclRedOp_t op, const void* scalar, ncclDataType_t datatype,
                    ncclScalarResidence_t residence) {
  codec::Dtype dtype;
  if (!compressible(datatype, &dtype)) return;
  codec::Multiplier multiplier{1.0f, scalar};
  if (residence == ncclScalarHostImmediate)
    multiplier = {codec::load_element(dtype, scalar), nullptr};
  made_[op] = {datatype, multiplier};
}

std::optional<Reduction> Operators::find(const Request& r) const {
  if (!plan::traits(r.collective).reduces || r.op == ncclSum) return Reduction{};
  if (r.op == ncclAvg) return Reduction{.average = true, .premultiply = {}};
  const auto made = made_.find(r.op);
  if (made == made_.end() || made->second.datatype != r.datatype) return {};
  return Reduction{.average = false, .premultiply = made->second.multiplier};
}

}  // namespace terse
