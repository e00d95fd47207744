// Reduction as the collectives see it: an operator bound to a data type and a number of ranks.
//
//   result = finish(combine(prepare(x_0), prepare(x_1), ...))
//
// prepare multiplies by PreMulSum's scalar, or for ncclAvg of floats by 1/nranks rounded to the
// type, as NCCL does; finish divides ncclAvg of integers. Types narrower than float are combined in
// float and rounded to nearest even at every step.
#pragma once

#include <nccl.h>

#include <array>
#include <cstddef>

#include "reduce_kernels.h"

namespace hostnccl {

size_t size_of(ncclDataType_t dtype);  // 0: no such type

using Scalar = std::array<char, 8>;

// An ncclRedOp_t resolved when the call is made, so that it may be destroyed right after.
struct Operator {
  ncclRedOp_t kind = ncclSum;  // one of the five that are built in; PreMulSum is a sum
  bool scaled = false;         // PreMulSum
  Scalar scalar{};
  const void* device_scalar = nullptr;  // read when the operation runs
};

class Reduction {
 public:
  Reduction(const Operator& op, ncclDataType_t dtype, int nranks);

  bool prepares() const { return scale_ != nullptr; }
  void prepare(void* dst, const void* src, size_t count) const {
    scale_(dst, src, scalar_.data(), count);
  }
  void combine(void* dst, const void* a, const void* b, size_t count) const {
    combine_(dst, a, b, count);
  }
  void finish(void* data, size_t count) const {
    if (divide_ != nullptr) divide_(data, nranks_, count);
  }

 private:
  const int nranks_;
  Kernels::Combine combine_;
  Kernels::Scale scale_ = nullptr;
  Kernels::Divide divide_ = nullptr;
  Scalar scalar_{};
};

}  // namespace hostnccl
