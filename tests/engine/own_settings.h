// The engine's verbs with the settings of this process, as libterse calls them.
#pragma once

#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"

namespace terse::test {

inline CommunicatorPointer communicator(ncclComm_t comm) {
  return terse::communicator(comm, settings());
}

inline void submit(ncclComm_t comm, const Request& request, const Scheme& scheme) {
  terse::submit(comm, request, scheme, settings());
}

}  // namespace terse::test
