#include "engine/call/intercept.h"

#include "engine/call/banner.h"
#include "engine/call/observation.h"
#include "engine/call/pending_group.h"
#include "engine/call/route.h"
#include "engine/call/trace.h"
#include "engine/comm/directory.h"
#include "engine/observe/reporter.h"

namespace terse {
namespace {

// Messages of a group are kept until its end: they follow the collectives, and those between two
// ranks keep their order, compressed or not.
bool joins(const Request& r) { return plan::is_point_to_point(r.collective) && group_depth() > 0; }

// State of a communicator, without asking NCCL whether the handle is still the same one: the
// preload library sees communicators come and go. Null: NCCL does not know the handle, and will
// refuse it.
CommunicatorPointer state_of(ncclComm_t comm, const Settings& settings) {
  if (CommunicatorPointer known = find_communicator(comm)) return known;
  return exists(comm, settings) ? communicator(comm, settings) : nullptr;
}

// Invalid arguments go to NCCL unchanged, so that NCCL reports them, before `auto` plans with them.
bool can_be_right(const Request& r) { return datatype_size(r.datatype) != 0 && fits_memory(r); }

// A missing root goes to NCCL, too.
bool root_exists(const Request& r, const Communicator& c) {
  return !plan::traits(r.collective).rooted || (r.root >= 0 && r.root < c.ranks);
}

// Makes no communicator if no rule compresses anything, unless the call must be refused.
Interception decline(ncclComm_t comm, const Request& r, const Settings& settings) {
  if (r.config.must_compress)
    if (const auto held = state_of(comm, settings)) require_not_native(*held, r, TERSE_BYPASS_OFF);
  if (const auto known = find_communicator(comm)) {
    trace(*known, r, TERSE_BYPASS_OFF);
    count_bypass(*known, r, TERSE_BYPASS_OFF);
  }
  return {.bypass = TERSE_BYPASS_OFF};
}

// Leaves an observed call to NCCL with the caller's own arguments.
Interception leave_native(const CommunicatorPointer& held, const Request& r, const Route& taken) {
  const std::optional<int> bypass = taken.bypass();
  if (bypass) {
    count_bypass(*held, r, *bypass);
    trace_native(held, r, *bypass);
  } else {
    observe(held, r, taken);
  }
  return {.bypass = bypass.value_or(TERSE_BYPASS_OBSERVED)};
}

}  // namespace

Interception intercept(ncclComm_t comm, const Request& r, const Settings& settings) {
  if (comm == nullptr || !can_be_right(r)) return {};
  const bool readable = settings.error.empty();  // else the communicator was made past us
  if (readable && !settings.policy.compresses()) return decline(comm, r, settings);
  const CommunicatorPointer held = state_of(comm, settings);
  if (held == nullptr) return {};
  Communicator& c = *held;
  if (!root_exists(r, c)) return {};
  if (needs_topology(c, r)) {
    if (settings.observe) return {};  // the ranks would have to meet for it
    c.health().require_usable();
    if (group_depth() > 0) {
      defer(c, r);
      return {.result = ncclSuccess};
    }
    const PendingCall alone{&c, &r};
    discover_topology({&alone, 1});
  }
  announce(c);
  if (report_is_due() && c.recording(r.stream) == 0) report_anew();
  const Route taken = route(c, r);
  if (settings.observe) return leave_native(held, r, taken);
  const std::optional<int> bypass = taken.bypass();
  if (bypass) {
    c.health().require_usable();
    count_bypass(c, r, *bypass);
  }
  if (bypass && !joins(r)) {
    trace_native(held, r, *bypass);
    if (group_depth() > 0) group_add_native(held, r.stream);
    return {.bypass = bypass};
  }
  submit(c, r, taken);
  return {.result = ncclSuccess, .bypass = bypass};
}

}  // namespace terse
