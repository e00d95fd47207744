// Torch's element types and operators as NCCL's.
#pragma once

#include <ATen/ATen.h>
#include <nccl.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace torch_hostnccl {

// Throws c10::TypeError for a type that NCCL cannot carry.
ncclDataType_t data_type(at::ScalarType type);

// Throws where an Operator of these cannot be made, without a communicator to make it for.
void check_operator(const c10d::ReduceOp& op, at::ScalarType type);

// An operator for tensors of one type on one communicator; made for the call if NCCL has none such.
class Operator {
 public:
  Operator(const c10d::ReduceOp& op, at::ScalarType type, ncclComm_t comm);
  ~Operator();
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  operator ncclRedOp_t() const { return op_; }

 private:
  ncclRedOp_t op_ = ncclSum;
  ncclComm_t made_for_ = nullptr;
};

}  // namespace torch_hostnccl
