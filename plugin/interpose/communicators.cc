#include "interpose/communicators.h"

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/thread_local.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "interpose/async_init.h"
#include "interpose/child_comms.h"
#include "interpose/handles_in_use.h"
#include "interpose/next.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

// Communicator that NCCL has made, or makes at the group's end.
struct Created {
  const char* by;  // function that the program has called
  ncclComm_t* comm;
  std::string name, made_from;
  ncclComm_t parent;   // or the one it has grown from; null: none
  bool in_background;  // it does not block
  bool may_lead;       // may be rank 0, as far as is known
};

// Work that is left to the thread's group end, where NCCL does what the group asks for.
struct Unfinished {
  std::vector<Created> created;
  bool aborted = false;                       // since the thread last reaped
  bool destroyed = false;                     // since the thread last reaped
  std::vector<InitThread> admission_threads;  // of communicators that NCCL ends
};

Unfinished& unfinished() { return ThreadLocal<Unfinished>::get(); }

// A destroy that we did not intercept may have freed the handle.
void name(const Created& created) {
  forget_background(*created.comm);
  release_communicator(*created.comm, true);
  name_communicator(*created.comm, created.name.c_str(), created.made_from);
}

ncclResult_t abort(ncclComm_t comm) {
  HandlesInUse::abort(comm);
  forget_part(comm);
  forget_background(comm);
  unfinished().admission_threads.push_back(abort_init(comm));
  abort_communicator(comm);
  const ncclResult_t result = call(next().CommAbort, "ncclCommAbort", comm);
  unfinished().aborted = true;
  if (group_depth() == 0) reap_ended();
  return result;
}

// Returns null unless an abandoned exchange of its ranks is still queued in NCCL.
CommunicatorPointer awaiting(ncclComm_t comm) {
  const CommunicatorPointer state = find_communicator(comm);
  return state != nullptr && state->memory().awaits_ranks() ? state : nullptr;
}

// Rethrows the exception being handled, for that function: the end of a group may report it.
[[noreturn]] void rethrow_as(const char* function) {
  try {
    throw;
  } catch (Error& e) {
    e.call = function;
    throw;
  }
}

// Initializes communicators that NCCL has made: all of them are usable, or none.
void finish_init(const std::vector<Created>& created) {
  std::vector<ncclComm_t> comms;
  for (const Created& c : created)
    if (*c.comm != nullptr) comms.push_back(*c.comm);
  const HandlesInUse in_use(comms);
  try {
    for (const Created& c : created) {
      if (*c.comm == nullptr) continue;
      name(c);
      if (c.in_background) note_in_background(*c.comm);
    }
    interpose::finish_init(comms);
  } catch (...) {
    for (const Created& c : created) *c.comm = nullptr;
    for (const ncclComm_t comm : comms)
      if (!in_use.is_aborted(comm)) abort(comm);
    rethrow_as(created.front().by);
  }
}

// Name in the program's configuration; NCCL has names since 2.27.
std::string name_in(const ncclConfig_t* config) {
  constexpr size_t kEnd = offsetof(ncclConfig_t, commName) + sizeof config->commName;
  const bool named = config != nullptr && config->size >= kEnd && config->commName != nullptr;
  return named ? config->commName : "";
}

// Begins the initialization of communicators that NCCL may still be making.
void expect(const std::vector<Created>& created) {
  for (const Created& c : created) {
    if (c.parent != nullptr) {
      register_child(
          {c.by, c.parent, c.comm, c.name, c.made_from, c.in_background, next_ordinal()});
    } else if (*c.comm != nullptr) {
      name(c);
      note_in_background(*c.comm);
      begin_init(*c.comm, c.by, nullptr, c.may_lead ? std::optional(next_ordinal()) : std::nullopt);
    }
  }
}

// Leaves the mark of `terse run --check`: a process of the run has reached NCCL by this library.
void leave_mark() {
  static const bool left = (terse::leave_mark(settings().mark), true);
  (void)left;
}

// Returns true if NCCL creates in the background, by its own variable or the configuration. Its
// result then differs between ranks, ncclSuccess, too.
bool in_background(const ncclConfig_t* config) {
  const char* const variable = std::getenv("NCCL_COMM_BLOCKING");
  const std::string_view said = variable == nullptr ? "" : variable;
  if (said == "0" || said == "1") return said == "0";
  return config != nullptr && config->blocking == 0;
}

// Creation that the program has asked for.
struct Wanted {
  const char* by;                        // function that the program has called
  const ncclConfig_t* config = nullptr;  // null: none of its own
  ncclComm_t parent = nullptr;           // of which it is made; null: none
  ncclComm_t namesake = nullptr;         // names it without a configuration
  bool may_lead = true;
};

// A child without a configuration does as its parent. A configuration's default is to block.
bool in_background(const Wanted& w) {
  return in_background(w.config) ||
         (w.config == nullptr && w.parent != nullptr && is_in_background(w.parent));
}

std::string name_for(const Wanted& w) {
  return w.config == nullptr && w.namesake != nullptr ? name_of_communicator(w.namesake)
                                                      : name_in(w.config);
}

bool accepted(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// Returns true if NCCL makes it before its call returns, as a child of a blocking parent, even if
// it does not block itself.
bool is_made_at_once(const Wanted& w) {
  return !in_background(w) || (w.parent != nullptr && !is_in_background(w.parent));
}

// Follows NCCL's own creation. A communicator that does not block is in progress while its ranks
// compare settings, even if NCCL has made it by then.
ncclResult_t created(const Wanted& w, ncclResult_t result, ncclComm_t* comms, int count = 1) {
  leave_mark();
  if (!accepted(result) || comms == nullptr || lacks_backend()) return result;
  const std::string name = name_for(w);
  const std::string made_from = w.parent != nullptr ? family_of_communicator(w.parent) : "";
  std::vector<Created> all;
  for (int i = 0; i < count; ++i)
    all.push_back({w.by, comms + i, name, made_from, w.parent, in_background(w), w.may_lead});
  if (group_depth() > 0) {
    std::vector<Created>& pending = unfinished().created;
    pending.insert(pending.end(), all.begin(), all.end());
    return result;
  }
  if (result == ncclSuccess && is_made_at_once(w)) {
    finish_init(all);
    return result;
  }
  expect(all);
  return ncclInProgress;
}

// created() for a child. NCCL says ncclSuccess for a child that does not block while it is still
// making it, and so do we.
ncclResult_t derived(const Wanted& w, ncclResult_t result, ncclComm_t* made) {
  const bool unsaid = result == ncclSuccess && !lacks_backend() && is_in_background(w.parent);
  if (!unsaid) return created(w, result, made);
  created(w, ncclInProgress, made);
  return result;
}

// Requires a usable parent before its ranks make a child together. NCCL makes children of a revoked
// one, whatever its calls have come to.
void require_whole(ncclComm_t parent) {
  require_initialized(parent);
  const auto known = find_communicator(parent);
  if (known != nullptr && !known->health().revoked()) known->health().require_usable();
}

// Calls NCCL for a call after which the program goes on without the communicator. mark() precedes
// it, as the call makes others fail; returns true if that is new, and is taken back if NCCL refuses
// the call.
template <class Mark, class Ask>
ncclResult_t ask_marked(ncclComm_t comm, const Mark& mark, void (CommHealth::*take_back)(),
                        const Ask& ask) {
  const auto known = find_communicator(comm);
  const bool is_new = known != nullptr && mark(known->health());
  const auto undo = [&] {
    if (is_new) (known->health().*take_back)();
  };
  try {
    const ncclResult_t result = ask();
    if (!accepted(result)) undo();
    return result;
  } catch (...) {
    undo();
    throw;
  }
}

std::vector<Created> take_pending() {
  Unfinished* const left = ThreadLocal<Unfinished>::find();
  return left != nullptr ? std::exchange(left->created, {}) : std::vector<Created>();
}

}  // namespace

void admit_pending() {
  const std::vector<Created> all = take_pending();
  if (!all.empty()) finish_init(all);
}

void expect_pending() { expect(take_pending()); }

void forget_pending() { take_pending(); }

void reap_ended() noexcept {
  Unfinished* const left = ThreadLocal<Unfinished>::find();
  if (left == nullptr) return;
  if (std::exchange(left->aborted, false)) reap_communicators();
  if (std::exchange(left->destroyed, false)) give_memory_back();
  left->admission_threads.clear();
}

}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return ours("ncclCommInitRank", [&] {
    return created({.by = "ncclCommInitRank", .may_lead = rank == 0},
                   next().CommInitRank(comm, nranks, id, rank), comm);
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return ours("ncclCommInitRankConfig", [&] {
    return created(
        {.by = "ncclCommInitRankConfig", .config = config, .may_lead = rank == 0},
        call(next().CommInitRankConfig, "ncclCommInitRankConfig", comm, nranks, id, rank, config),
        comm);
  });
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int nranks, int rank, int ids,
                                      ncclUniqueId* id, ncclConfig_t* config) {
  return ours("ncclCommInitRankScalable", [&] {
    return created({.by = "ncclCommInitRankScalable", .config = config, .may_lead = rank == 0},
                   call(next().CommInitRankScalable, "ncclCommInitRankScalable", comm, nranks, rank,
                        ids, id, config),
                   comm);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return ours("ncclCommInitAll", [&] {
    return created({.by = "ncclCommInitAll"}, next().CommInitAll(comms, count, devices), comms,
                   count);
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  return ours("ncclCommSplit", [&] {
    require_whole(comm);
    const ncclResult_t result =
        call(next().CommSplit, "ncclCommSplit", comm, color, key, made, config);
    if (color == NCCL_SPLIT_NOCOLOR) return result;  // makes nothing
    return derived({.by = "ncclCommSplit", .config = config, .parent = comm, .namesake = comm},
                   result, made);
  });
}

// Shrinks: a program goes on without lost ranks, also if its communicator has failed.
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int count, ncclComm_t* made,
                            ncclConfig_t* config, int flags) {
  return ours("ncclCommShrink", [&] {
    wait_for_init(comm);
    const bool aborts = (flags & NCCL_SHRINK_ABORT) != 0;
    const ncclResult_t result = ask_marked(
        comm, [&](CommHealth& health) { return health.suppress_async_error(aborts); },
        &CommHealth::report_async_error,
        [&] {
          return call(next().CommShrink, "ncclCommShrink", comm, excluded, count, made, config,
                      flags);
        });
    if (accepted(result)) suppress_init_error(comm);
    return derived({.by = "ncclCommShrink", .config = config, .parent = comm, .namesake = comm},
                   result, made);
  });
}

// New ranks have no `comm`, whose configuration they could take: a grown communicator without one
// of its own has no name on any rank.
ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                          ncclComm_t* made, ncclConfig_t* config) {
  return ours("ncclCommGrow", [&] {
    require_whole(comm);
    return derived({.by = "ncclCommGrow", .config = config, .parent = comm},
                   call(next().CommGrow, "ncclCommGrow", comm, ranks, id, rank, made, config),
                   made);
  });
}

// Ranks leave together: fails instead of waiting for an abandoned exchange.
ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return ours("ncclCommFinalize", [&] {
    wait_for_init(comm);
    if (const auto known = awaiting(comm)) known->health().require_usable();
    return call(next().CommFinalize, "ncclCommFinalize", comm);
  });
}

// Registers a child that the program has not asked for, as others may have. Fails if NCCL would
// wait for an abandoned exchange of the ranks.
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return ours("ncclCommDestroy", [&] {
    const HandlesInUse in_use({comm});
    require_made(comm);
    forget_background(comm);
    unfinished().admission_threads.push_back(end_init(comm));
    if (awaiting(comm) != nullptr) return abort(comm);
    release_communicator(comm, true);
    const ncclResult_t result =
        in_use.is_aborted(comm) ? ncclSuccess : call(next().CommDestroy, "ncclCommDestroy", comm);
    unfinished().destroyed = true;
    if (group_depth() == 0) reap_ended();
    return result;
  });
}

// May be called from another thread than the one that drives the communicator, whose waits end.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return ours("ncclCommAbort", [&] { return abort(comm); });
}

// Ends what is under way, here or on other threads, and leaves what children may be made of.
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return ours("ncclCommRevoke", [&] {
    wait_for_init(comm);
    const ncclResult_t result = ask_marked(
        comm, [](CommHealth& health) { return health.revoke(); }, &CommHealth::restore,
        [&] { return call(next().CommRevoke, "ncclCommRevoke", comm, flags); });
    if (accepted(result)) (void)end_init(comm);  // no NCCL with this function looks at the thread
    return result;
  });
}

}  // extern "C"
#pragma GCC visibility pop
