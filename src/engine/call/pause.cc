#include "engine/call/pause.h"

#include "base/error.h"
#include "engine/call/group.h"
#include "engine/comm/directory.h"
#include "engine/peers/unanimous.h"

namespace terse {

void pause(ncclComm_t comm, bool paused, const Settings& settings) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  if (group_depth() > 0) fail(ncclInvalidUsage, "compression cannot be paused within a group");
  const CommunicatorPointer held = communicator(comm, settings);
  Communicator& c = *held;
  c.signing([&] {
    require_unanimous(
        c, paused ? 2 : 1, {},
        paused ? "does not pause where this rank does" : "pauses where this rank goes on");
  });
  c.paused = paused;
}

}  // namespace terse
