// NCCL's element types.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "codec/layout.h"

namespace terse {

// Size in bytes, 0 for an unknown type.
size_t datatype_size(ncclDataType_t datatype);

// The codec's name of a type that can be compressed.
bool compressible(ncclDataType_t datatype, codec::Dtype* dtype);

}  // namespace terse
