// Calls of NCCL that go out together.
#pragma once

#include <exception>

#include "errors.h"

namespace torch_hostnccl {

// Makes the calls between ncclGroupStart and ncclGroupEnd. The group ends in any case.
template <class Calls>
void grouped(Calls&& calls) {
  check(ncclGroupStart(), "ncclGroupStart");
  try {
    calls();
  } catch (...) {
    ncclGroupEnd();
    throw;
  }
  check(ncclGroupEnd(), "ncclGroupEnd");
}

}  // namespace torch_hostnccl
