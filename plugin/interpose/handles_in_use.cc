#include "interpose/handles_in_use.h"

#include <algorithm>
#include <mutex>

namespace terse::interpose {
namespace {

struct Calls {
  std::mutex mutex;
  std::vector<HandlesInUse*> under_way;
};

// Never destroyed: calls may come from other threads while the program exits.
Calls& calls() {
  static Calls& all = *new Calls;
  return all;
}

}  // namespace

HandlesInUse::HandlesInUse(const std::vector<ncclComm_t>& comms) {
  for (const ncclComm_t comm : comms) handles_.push_back({comm});
  const std::lock_guard lock(calls().mutex);
  calls().under_way.push_back(this);
}

HandlesInUse::~HandlesInUse() {
  const std::lock_guard lock(calls().mutex);
  std::erase(calls().under_way, this);
}

bool HandlesInUse::is_aborted(ncclComm_t comm) const {
  const std::lock_guard lock(calls().mutex);
  return std::ranges::any_of(
      handles_, [&](const Handle& handle) { return handle.comm == comm && handle.aborted; });
}

void HandlesInUse::abort(ncclComm_t comm) {
  const std::lock_guard lock(calls().mutex);
  for (HandlesInUse* each : calls().under_way)
    for (Handle& handle : each->handles_) handle.aborted |= handle.comm == comm;
}

}  // namespace terse::interpose
