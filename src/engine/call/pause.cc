#include "engine/call/pause.h"

#include "base/error.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "engine/peers/unanimous.h"

namespace terse {
namespace {

// Exchanges nothing between ranks: after an error on one rank the others may still be at calls, and
// would take it for a part of those. A communicator's end takes its pauses along.
void resume(ncclComm_t comm) {
  if (const CommunicatorPointer held = find_communicator(comm)) held->routing().resume();
}

}  // namespace

void pause(ncclComm_t comm, bool paused, const Settings& settings) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  if (group_depth() > 0) fail(ncclInvalidUsage, "compression cannot be paused within a group");
  if (!paused) return resume(comm);
  const CommunicatorPointer held = communicator(comm, settings);
  Communicator& c = *held;
  if (!c.routing().is_paused())
    c.with_context([&] { require_unanimous(c, 1, {}, "does not pause where this rank does"); });
  c.routing().pause();
}

}  // namespace terse
