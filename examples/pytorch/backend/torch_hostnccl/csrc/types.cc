#include "types.h"

#include <c10/util/Exception.h>

#include <array>
#include <cstring>
#include <utility>

#include "errors.h"

namespace torch_hostnccl {
namespace {

using c10d::ReduceOp;

// As ProcessGroupNCCL has it. The two types of fp8 that NCCL does not know travel as bytes.
constexpr std::pair<at::ScalarType, ncclDataType_t> kTypes[] = {
    {at::kChar, ncclInt8},
    {at::kByte, ncclUint8},
    {at::kBool, ncclUint8},
    {at::kInt, ncclInt32},
    {at::kLong, ncclInt64},
    {at::kHalf, ncclFloat16},
    {at::kBFloat16, ncclBfloat16},
    {at::kFloat, ncclFloat32},
    {at::kDouble, ncclFloat64},
    {at::kFloat8_e4m3fn, ncclFloat8e4m3},
    {at::kFloat8_e5m2, ncclFloat8e5m2},
    {at::kFloat8_e4m3fnuz, ncclUint8},
    {at::kFloat8_e5m2fnuz, ncclUint8},
};

ncclRedOp_t plain_operator(const ReduceOp& op, at::ScalarType type) {
  if (type == at::kFloat8_e4m3fnuz || type == at::kFloat8_e5m2fnuz) {
    C10_THROW_ERROR(TypeError, c10::str("Cannot reduce ", type, ", which travels as bytes"));
  }
  // A sum of bytes that stand for bools would overflow; the largest is the same "or".
  if (type == at::kBool && op == ReduceOp::SUM) return ncclMax;
  if (type == at::kBool && op == ReduceOp::AVG) {
    C10_THROW_ERROR(TypeError, "Cannot use ReduceOp.AVG with boolean inputs");
  }
  switch (op.op_) {
    case ReduceOp::SUM:
      return ncclSum;
    case ReduceOp::AVG:
      return ncclAvg;
    case ReduceOp::PRODUCT:
      return ncclProd;
    case ReduceOp::MIN:
      return ncclMin;
    case ReduceOp::MAX:
      return ncclMax;
    case ReduceOp::BAND:
      C10_THROW_ERROR(ValueError, "Cannot use ReduceOp.BAND with NCCL");
    case ReduceOp::BOR:
      C10_THROW_ERROR(ValueError, "Cannot use ReduceOp.BOR with NCCL");
    case ReduceOp::BXOR:
      C10_THROW_ERROR(ValueError, "Cannot use ReduceOp.BXOR with NCCL");
    default:
      C10_THROW_ERROR(ValueError, "Unhandled ReduceOp");
  }
}

// The factor of a PREMUL_SUM, in the bytes of the tensor's type.
at::Tensor factor_of(const ReduceOp& op, at::ScalarType type) {
  if (type != at::kHalf && type != at::kBFloat16 && type != at::kFloat && type != at::kDouble) {
    C10_THROW_ERROR(TypeError, "PreMulSum Data type must be half, bfloat16, float, or double");
  }
  const auto* given = static_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(given != nullptr, "PREMUL_SUM without a factor");
  if (given->tensor_factor.defined()) {
    TORCH_CHECK_WITH(TypeError, given->tensor_factor.scalar_type() == type,
                     "The factor of a PREMUL_SUM must be of the tensor's type");
    return given->tensor_factor;
  }
  return at::full({1}, given->double_factor, at::TensorOptions().dtype(type));
}

}  // namespace

ncclDataType_t data_type(at::ScalarType type) {
  for (const auto& [torch, nccl] : kTypes) {
    if (torch == type) return nccl;
  }
  C10_THROW_ERROR(
      TypeError,
      c10::str("Input tensor data type is not supported for NCCL process group: ", type));
}

void check_operator(const ReduceOp& op, at::ScalarType type) {
  data_type(type);
  if (op.op_ == ReduceOp::PREMUL_SUM) {
    factor_of(op, type);
  } else {
    plain_operator(op, type);
  }
}

Operator::Operator(const ReduceOp& op, at::ScalarType type, ncclComm_t comm) {
  if (op.op_ != ReduceOp::PREMUL_SUM) {
    op_ = plain_operator(op, type);
    return;
  }
  // Read at once, and not as the call runs: the caller may change it by then.
  const at::Tensor factor = factor_of(op, type);
  check(ncclRedOpCreatePreMulSum(&op_, factor.data_ptr(), data_type(type), ncclScalarHostImmediate,
                                 comm),
        "ncclRedOpCreatePreMulSum");
  made_for_ = comm;
}

Operator::~Operator() {
  if (made_for_ != nullptr) ncclRedOpDestroy(op_, made_for_);
}

}  // namespace torch_hostnccl
