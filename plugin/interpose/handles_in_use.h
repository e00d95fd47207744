// Handles in use by calls that wait. An abort from another thread may end the wait and the handle,
// which then must not reach NCCL.
#pragma once

#include <nccl.h>

#include <vector>

namespace terse::interpose {

// Holds handles for as long as the call needs them.
class HandlesInUse {
 public:
  explicit HandlesInUse(const std::vector<ncclComm_t>& comms);
  ~HandlesInUse();
  HandlesInUse(const HandlesInUse&) = delete;
  HandlesInUse& operator=(const HandlesInUse&) = delete;

  bool is_aborted(ncclComm_t comm) const;

  // Notifies all calls that hold the handle.
  static void abort(ncclComm_t comm);

 private:
  struct Handle {
    ncclComm_t comm;
    bool aborted = false;
  };

  std::vector<Handle> handles_;
};

}  // namespace terse::interpose
