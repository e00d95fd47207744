// Handles of communicators that a call goes on with after it has waited. An abort from another
// thread may end the wait, and with that the handle: it must not come to NCCL then.
#pragma once

#include <nccl.h>

#include <vector>

namespace terse::interpose {

// For as long as the call needs them.
class HandlesInUse {
 public:
  explicit HandlesInUse(const std::vector<ncclComm_t>& comms);
  ~HandlesInUse();
  HandlesInUse(const HandlesInUse&) = delete;
  HandlesInUse& operator=(const HandlesInUse&) = delete;

  bool is_aborted(ncclComm_t comm) const;

  // All calls that have it now are told.
  static void abort(ncclComm_t comm);

 private:
  struct Handle {
    ncclComm_t comm;
    bool aborted = false;
  };

  std::vector<Handle> handles_;
};

}  // namespace terse::interpose
