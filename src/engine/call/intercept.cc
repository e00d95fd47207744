#include "engine/call/intercept.h"

#include "engine/call/banner.h"
#include "engine/call/pending_group.h"
#include "engine/call/route.h"
#include "engine/call/trace.h"
#include "engine/comm/directory.h"

namespace terse {
namespace {

// In a group messages follow the collectives, and those between two ranks keep their order,
// whichever of all these are compressed: so the engine takes them, until it knows the whole group.
bool joins(const Request& r) { return plan::is_point_to_point(r.collective) && group_depth() > 0; }

// Unlike libterse, the preload library sees communicators come and go, and need not ask NCCL
// whether this is still the same one. Null: NCCL does not know the handle, as one that was
// destroyed, and is to refuse it.
CommunicatorPointer state_of(ncclComm_t comm, const Settings& settings) {
  if (CommunicatorPointer known = find_communicator(comm)) return known;
  return exists(comm, settings) ? communicator(comm, settings) : nullptr;
}

// Where it cannot NCCL is to say so, before anything goes by it: `auto` would plan such a count.
bool can_be_right(const Request& r) {
  return r.comm != nullptr && datatype_size(r.datatype) != 0 && fits_memory(r);
}

// Where it does not the same.
bool root_exists(const Request& r, const Communicator& c) {
  return !plan::traits(r.collective).rooted || (r.root >= 0 && r.root < c.ranks);
}

// Where no rule compresses anything a call makes no communicator, but for one that is refused.
Interception decline(const Request& r, const Settings& settings) {
  if (r.config.must_compress)
    if (const auto held = state_of(r.comm, settings))
      require_not_native(*held, r, TERSE_BYPASS_OFF);
  if (const auto known = find_communicator(r.comm)) {
    trace(*known, r, TERSE_BYPASS_OFF);
    count_bypass(*known, r, TERSE_BYPASS_OFF);
  }
  return {.bypass = TERSE_BYPASS_OFF};
}

}  // namespace

Interception intercept(const Request& r, const Settings& settings) {
  if (!can_be_right(r)) return {};
  const bool readable = settings.error.empty();  // else this one was made past us
  if (readable && !settings.policy.compresses()) return decline(r, settings);
  const CommunicatorPointer held = state_of(r.comm, settings);
  if (held == nullptr) return {};
  Communicator& c = *held;
  if (!root_exists(r, c)) return {};
  if (needs_topology(c, r)) {
    c.health.require_usable();
    if (group_depth() > 0) {
      defer(c, r);
      return {.result = ncclSuccess};
    }
    const PendingCall alone{&c, &r};
    discover_topology({&alone, 1});
  }
  announce(c);
  const Route way = route(c, r);
  if (way.bypass) {
    c.health.require_usable();
    count_bypass(c, r, *way.bypass);
  }
  if (way.bypass && !joins(r)) {
    if (group_depth() > 0) group_has(held, r.stream);
    return {.bypass = way.bypass};
  }
  submit(c, r, way);
  return {.result = ncclSuccess, .bypass = way.bypass};
}

}  // namespace terse
