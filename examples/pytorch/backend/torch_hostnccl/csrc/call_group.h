// Calls of NCCL that go out together.
#pragma once

#include "errors.h"

namespace torch_hostnccl {

// How many groups of calls this thread has begun, and not ended.
inline thread_local int open_groups = 0;

inline void begin_group() {
  check(ncclGroupStart(), "ncclGroupStart");
  ++open_groups;
}

inline void end_group() {
  --open_groups;
  check(ncclGroupEnd(), "ncclGroupEnd");
}

// Makes the calls between ncclGroupStart and ncclGroupEnd. The group ends in any case.
template <class Calls>
void grouped(Calls&& calls) {
  begin_group();
  try {
    calls();
  } catch (...) {
    --open_groups;
    ncclGroupEnd();
    throw;
  }
  end_group();
}

// Within its life no group is open: what is made in a group is there when the group ends. What the
// groups had so far goes out, and they begin anew after it, as ProcessGroupNCCL does it.
class OutsideOfGroups {
 public:
  OutsideOfGroups() {
    for (; open_groups > 0; ++ended_) end_group();
  }
  ~OutsideOfGroups() {
    for (; ended_ > 0; --ended_) {
      if (ncclGroupStart() == ncclSuccess) ++open_groups;
    }
  }
  OutsideOfGroups(const OutsideOfGroups&) = delete;
  OutsideOfGroups& operator=(const OutsideOfGroups&) = delete;

 private:
  int ended_ = 0;
};

}  // namespace torch_hostnccl
