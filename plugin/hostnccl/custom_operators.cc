// The operators that a communicator has beside NCCL's own.
#include <atomic>

#include "comm.h"

namespace hostnccl {

// No two communicators of a process have an operator of the same number.
ncclRedOp_t Comm::add_operator(const Operator& op, ncclDataType_t dtype) {
  static std::atomic<uint32_t> made{0};
  constexpr uint32_t kNumbers = ncclMaxRedOp - ncclNumOps;
  const int handle = ncclNumOps + static_cast<int>(made++ % kNumbers);
  std::lock_guard lock(mutex_);
  operators_[handle] = {op, dtype};
  return static_cast<ncclRedOp_t>(handle);
}

void Comm::remove_operator(ncclRedOp_t handle) {
  std::lock_guard lock(mutex_);
  if (operators_.erase(handle) == 0) {
    fail(ncclInvalidArgument, "operator {} was not made for this communicator",
         static_cast<int>(handle));
  }
}

Operator Comm::resolve_operator(ncclRedOp_t handle, ncclDataType_t dtype) const {
  if (handle >= 0 && handle < ncclNumOps) return {.kind = handle};
  std::lock_guard lock(mutex_);
  const auto found = operators_.find(handle);
  if (found == operators_.end()) {
    fail(ncclInvalidArgument, "operator {} is not valid on this communicator",
         static_cast<int>(handle));
  }
  if (found->second.second != dtype) {
    fail(ncclInvalidArgument, "operator {} was made for another data type",
         static_cast<int>(handle));
  }
  return found->second.first;
}

}  // namespace hostnccl
