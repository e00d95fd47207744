#include "interpose/child_comms.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/comm/directory.h"
#include "interpose/async_init.h"
#include "interpose/next.h"

namespace terse::interpose {
namespace {

struct Parts {
  std::mutex mutex;
  std::unordered_set<ncclComm_t> in_background;
  std::vector<ChildComm> awaited;  // children whose handles are not there yet
};

// Never destroyed: calls may come from other threads while the program exits.
Parts& parts() {
  static Parts& all = *new Parts;
  return all;
}

// Size of Parts::awaited, so that asking for a state costs nothing while there are none. Zero only
// after all places have been read.
std::atomic<size_t> g_awaited{0};

bool awaits_parts() { return g_awaited.load(std::memory_order_acquire) != 0; }

// Returns null if it is not there yet.
ncclComm_t handle_of(const ChildComm& part) {
  return std::atomic_ref(*part.comm).load(std::memory_order_acquire);
}

// Returns true if the child's handle is there, and names it.
bool try_to_name(Parts& s, const ChildComm& part) {
  const ncclComm_t comm = handle_of(part);
  if (comm == nullptr) return false;
  if (part.in_background)
    s.in_background.insert(comm);
  else
    s.in_background.erase(comm);
  // A program that has seen the handle may use it by now.
  if (find_communicator(comm) == nullptr) {
    name_communicator(comm, part.name.c_str(), part.made_from);
    begin_init(comm, part.by, part.parent, part.ordinal);
  }
  return true;
}

template <class Over>
void drop(Parts& s, const Over& over) {
  std::erase_if(s.awaited, over);
  g_awaited.store(s.awaited.size(), std::memory_order_release);
}

// Registers the parent's children before the program is told that it is not in progress: then their
// places may go. The news may be older than a child, which then stays awaited. `good`: NCCL has not
// failed.
void settle_parts(ncclComm_t parent, bool good) {
  Parts& s = parts();
  const std::lock_guard lock(s.mutex);
  drop(s, [&](const ChildComm& p) { return p.parent == parent && (!good || try_to_name(s, p)); });
}

// Finds the child of a handle. Looks at no place for a communicator that terse knows: places of
// other children may be gone.
template <class Over>
void drop_part(ncclComm_t comm, const Over& over) {
  if (!awaits_parts() || comm == nullptr) return;
  if (is_initializing(comm) || find_communicator(comm) != nullptr) return;
  Parts& s = parts();
  const std::lock_guard lock(s.mutex);
  drop(s, [&](const ChildComm& p) { return handle_of(p) == comm && over(s, p); });
}

// Asks NCCL through the communicator that terse knows, as one thread at a time must.
ncclResult_t ask_nccl(ncclComm_t comm, const CommunicatorPointer& known, ncclResult_t* async) {
  return known != nullptr ? known->health().ask_nccl(async)
                          : next().library->nccl.CommGetAsyncError(comm, async);
}

}  // namespace

void note_in_background(ncclComm_t comm) {
  Parts& s = parts();
  const std::lock_guard lock(s.mutex);
  s.in_background.insert(comm);
}

void forget_background(ncclComm_t comm) {
  Parts& s = parts();
  const std::lock_guard lock(s.mutex);
  s.in_background.erase(comm);
  drop(s, [&](const ChildComm& p) { return p.parent == comm; });
}

bool is_in_background(ncclComm_t comm) {
  Parts& s = parts();
  const std::lock_guard lock(s.mutex);
  return s.in_background.contains(comm);
}

void register_child(ChildComm part) {
  Parts& s = parts();
  const std::lock_guard lock(s.mutex);
  if (try_to_name(s, part)) return;
  s.awaited.push_back(std::move(part));
  g_awaited.store(s.awaited.size(), std::memory_order_release);
}

void register_children() {
  if (!awaits_parts()) return;
  Parts& s = parts();
  const std::lock_guard lock(s.mutex);
  drop(s, [&](const ChildComm& p) { return try_to_name(s, p); });
}

void claim_child(ncclComm_t comm) { drop_part(comm, try_to_name); }

void forget_part(ncclComm_t comm) {
  drop_part(comm, [](const Parts&, const ChildComm&) { return true; });
}

}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;

// Returns NCCL's answer, after naming the children it is about; or that an initialization is under
// way, or has failed and the program has not gone on without the communicator.
extern "C" __attribute__((visibility("default"))) ncclResult_t ncclCommGetAsyncError(
    ncclComm_t comm, ncclResult_t* async) {
  return ours("ncclCommGetAsyncError", [&] {
    if (InNccl::here()) return next().library->nccl.CommGetAsyncError(comm, async);
    claim_child(comm);
    if (async != nullptr && is_initializing(comm)) {
      register_children();
      *async = ncclInProgress;
      return ncclSuccess;
    }
    const CommunicatorPointer known = find_communicator(comm);
    const ncclResult_t result = ask_nccl(comm, known, async);
    const bool is_news = awaits_parts() || has_inits() || has_poisoned_communicators();
    if (result != ncclSuccess || !is_news || *async == ncclInProgress) return result;
    const bool good = *async == ncclSuccess;
    settle_parts(comm, good);
    if (known != nullptr && good) *async = known->health().failure().value_or(ncclSuccess);
    if (const ncclResult_t at = init_state(comm); at != ncclSuccess) *async = at;
    if (*async == ncclInProgress) register_children();
    return result;
  });
}
