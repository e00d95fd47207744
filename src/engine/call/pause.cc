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
  // Nothing goes between the ranks at the end: a rank may come there by an error, while the others
  // are still at calls that were to stay native, and would take it for a part of those.
  if (paused)
    c.signing([&] { require_unanimous(c, 1, {}, "does not pause where this rank does"); });
  c.paused = paused;
}

}  // namespace terse
