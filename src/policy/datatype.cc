#include "policy/datatype.h"

#include <iterator>

namespace terse {

size_t datatype_size(ncclDataType_t datatype) {
  static constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  static_assert(std::size(kSizes) == ncclNumTypes);
  const auto index = static_cast<size_t>(datatype);
  return index < std::size(kSizes) ? kSizes[index] : 0;
}

bool compressible(ncclDataType_t datatype, codec::Dtype* dtype) {
  switch (datatype) {
    case ncclFloat32:
      *dtype = codec::Dtype::kFloat32;
      return true;
    case ncclFloat16:
      *dtype = codec::Dtype::kFloat16;
      return true;
    case ncclBfloat16:
      *dtype = codec::Dtype::kBfloat16;
      return true;
    default:
      return false;
  }
}

}  // namespace terse
