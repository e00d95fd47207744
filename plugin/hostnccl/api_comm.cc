// The C interface: communicators.
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "api.h"
#include "bootstrap.h"
#include "meeting.h"

HOSTNCCL_EXPORT(GetUniqueId);
HOSTNCCL_EXPORT(CommInitRank);
HOSTNCCL_EXPORT(CommInitRankConfig);
HOSTNCCL_EXPORT(CommInitRankScalable);
HOSTNCCL_EXPORT(CommInitAll);
HOSTNCCL_EXPORT(CommSplit);
HOSTNCCL_EXPORT(CommShrink);
HOSTNCCL_EXPORT(CommFinalize);
HOSTNCCL_EXPORT(CommDestroy);
HOSTNCCL_EXPORT(CommAbort);
HOSTNCCL_EXPORT(CommRevoke);
HOSTNCCL_EXPORT(CommGetAsyncError);
HOSTNCCL_EXPORT(CommCount);
HOSTNCCL_EXPORT(CommCuDevice);
HOSTNCCL_EXPORT(CommUserRank);
HOSTNCCL_EXPORT(CommRegister);
HOSTNCCL_EXPORT(CommDeregister);
HOSTNCCL_EXPORT(CommWindowRegister);
HOSTNCCL_EXPORT(CommWindowDeregister);

using namespace hostnccl;

namespace {

// NCCL 2.14's configuration ended after `blocking`; every release since has added to the end.
constexpr size_t kOldestConfig = 24;

void check_number(int value, int low, int high, const char* name) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= low && value <= high)) return;
  fail(ncclInvalidArgument, "config.{} is {}", name, value);
}

// Reads a configuration. Values left open are as without a parent, as in NCCL.
Config read_config(const ncclConfig_t* given, const Config& inherited) {
  Config config = given == nullptr ? inherited : Config{};
  if (given != nullptr) {
    size_t size = 0;
    std::memcpy(&size, given, sizeof(size));
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    const unsigned int magic = known.magic;
    // An older program's structure ends early: nothing behind its end is read.
    if (size >= kOldestConfig) std::memcpy(&known, given, std::min(size, sizeof(known)));
    require(size >= kOldestConfig && known.magic == magic, ncclInvalidArgument,
            "config was not set to NCCL_CONFIG_INITIALIZER");
    check_number(known.blocking, 0, 1, "blocking");
    check_number(known.minCTAs, 1, INT_MAX, "minCTAs");
    check_number(known.maxCTAs, 1, INT_MAX, "maxCTAs");
    if (known.blocking != NCCL_CONFIG_UNDEF_INT) config.blocking = known.blocking != 0;
  }
  config.blocking = read_settings().blocking.value_or(config.blocking);
  return config;
}

ncclResult_t init_rank(ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* given) {
  require_pointer(comm, "comm");
  *comm = nullptr;
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    fail(ncclInvalidArgument, "rank {} of {} is not possible", rank, nranks);
  }
  const Config config = read_config(given, {});
  return Group::current().add(
      {.start = [=, meet = meet_by_id(id, rank, nranks)] { return Comm::start(config, meet); },
       .out = comm,
       .blocking = config.blocking,
       .parent = nullptr});
}

// Adds a child. As in NCCL the call blocks if the parent does, whatever the child will do. A child
// of a non-blocking parent counts as made, and the parent's state says that it is in progress.
ncclResult_t add_part(PendingInit part) {
  const ncclResult_t result = Group::current().add(std::move(part));
  return result == ncclInProgress ? ncclSuccess : result;
}

void require_distinct(const int* numbers, int count, int end, const char* name) {
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    if (numbers[i] < 0 || numbers[i] >= end || !seen.insert(numbers[i]).second) {
      fail(ncclInvalidArgument, "{}[{}] is {}: out of range or given twice", name, i, numbers[i]);
    }
  }
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* unique_id) {
  return guard("ncclGetUniqueId", [&] {
    require_pointer(unique_id, "uniqueId");
    *unique_id = make_unique_id(read_settings());
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId comm_id, int rank) {
  return guard_in_group("ncclCommInitRank",
                        [&] { return init_rank(comm, nranks, comm_id, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId comm_id, int rank,
                                    ncclConfig_t* config) {
  return guard_in_group("ncclCommInitRankConfig",
                        [&] { return init_rank(comm, nranks, comm_id, rank, config); });
}

// Several ids spread the load of very many ranks; the first one serves ours.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int id_count,
                                      ncclUniqueId* comm_ids, ncclConfig_t* config) {
  return guard_in_group("ncclCommInitRankScalable", [&] {
    require_pointer(comm_ids, "commIds");
    if (id_count < 1 || id_count > nranks)
      fail(ncclInvalidArgument, "nId {} is not possible", id_count);
    // The ranks meet by the first one.
    for (int i = 1; i < id_count; ++i) close_meeting(comm_ids[i]);
    return init_rank(newcomm, nranks, comm_ids[0], myrank, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return guard("ncclCommInitAll", [&] {
    require_pointer(comm, "comm");
    if (ndev < 1) fail(ncclInvalidArgument, "ndev is {}", ndev);
    if (devlist != nullptr) require_distinct(devlist, ndev, INT_MAX, "devlist");
    const ncclUniqueId id = make_unique_id({.timeout = read_settings().timeout,
                                            .interface = read_settings().interface,
                                            .comm_id = {},
                                            .blocking = {}});
    Group& group = Group::current();
    group.start();
    try {
      for (int rank = 0; rank < ndev; ++rank) init_rank(&comm[rank], ndev, id, rank, nullptr);
    } catch (const Failure& failure) {
      group.note(failure);
    }
    return group.end();
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return guard_in_group("ncclCommSplit", [&] {
    require_pointer(newcomm, "newcomm");
    *newcomm = nullptr;
    const CommPtr parent = find_comm(comm);
    parent->check_divisible();
    require(color >= 0 || color == NCCL_SPLIT_NOCOLOR, ncclInvalidArgument, "color is negative");
    const Config child = read_config(config, parent->config());
    // True for a split after a revocation; one before it is one of the parent's calls, and fails
    // with them.
    const bool late = parent->is_revoked();
    const auto meet = late ? &meet_by_late_split : &meet_by_split;
    return add_part({.start = [=] { return Comm::start(child, meet(parent, color, key)); },
                     .out = newcomm,
                     .blocking = parent->config().blocking,
                     .parent = parent,
                     .at_listener = late});
  });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* exclude, int exclude_count, ncclComm_t* newcomm,
                            ncclConfig_t* config, int flags) {
  return guard_in_group("ncclCommShrink", [&] {
    if (newcomm != nullptr) *newcomm = nullptr;
    const CommPtr parent = find_comm(comm);
    parent->require_undivided();  // who has to wait for that asks again, and it is the same call
    const uint64_t number = parent->next_shrink();
    require_pointer(newcomm, "newcomm");
    require_pointer(exclude, "excludeRanksList");
    parent->wait_until_ready();  // it is, or it has failed
    if (exclude_count < 1 || exclude_count >= parent->size()) {
      fail(ncclInvalidArgument, "excludeRanksCount is {}", exclude_count);
    }
    require_distinct(exclude, exclude_count, parent->size(), "excludeRanksList");
    const std::vector<int> excluded(exclude, exclude + exclude_count);
    const bool abort = flags == NCCL_SHRINK_ABORT;
    if (!abort) parent->check_divisible();
    const Config child = read_config(config, parent->config());
    return add_part({.start =
                         [=] {
                           if (abort) parent->quiesce();
                           return Comm::start(child, meet_by_shrink(parent, number, excluded));
                         },
                     .out = newcomm,
                     .blocking = parent->config().blocking,
                     .parent = parent,
                     .at_listener = true});
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guard_in_group("ncclCommFinalize", [&] {
    const CommPtr found = find_comm(comm);
    found->finalize();
    if (found->config().blocking) found->wait_until_left();
    return found->config().blocking ? ncclSuccess : found->async_error();
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guard("ncclCommDestroy", [&] { CommHandles::take(comm, "comm")->destroy(); });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return guard("ncclCommAbort", [&] { CommHandles::take(comm, "comm")->abort(); });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  if (comm == nullptr) return ncclSuccess;
  return guard("ncclCommRevoke", [&] {
    require(flags == NCCL_REVOKE_DEFAULT, ncclInvalidArgument, "revokeFlags must be 0");
    const CommPtr found = find_comm(comm);
    found->require_initialized();
    found->quiesce();
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return guard("ncclCommGetAsyncError", [&] {
    require_pointer(error, "asyncError");
    *error = find_comm(comm)->async_error();
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return guard("ncclCommCount", [&] {
    require_pointer(count, "count");
    const CommPtr found = find_comm(comm);
    found->require_initialized();
    *count = found->size();
  });
}

// Returns the rank in place of a device number, for there is no device.
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return guard("ncclCommCuDevice", [&] {
    require_pointer(device, "device");
    const CommPtr found = find_comm(comm);
    found->require_initialized();
    *device = found->rank();
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return guard("ncclCommUserRank", [&] {
    require_pointer(rank, "rank");
    const CommPtr found = find_comm(comm);
    found->require_initialized();
    *rank = found->rank();
  });
}

// Registration makes nothing faster here. The handle is the buffer's address, for want of another.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return guard("ncclCommRegister", [&] {
    find_comm(comm);
    require_pointer(handle, "handle");
    *handle = nullptr;
    if (size > 0) require_pointer(buff, "buff");
    *handle = buff;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return guard("ncclCommDeregister", [&] { find_comm(comm); });
}

// A window is accepted like any registration: programs that only want speed go on, and the device
// functions that could tell the difference do not exist without a device.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t, ncclWindow_t* win, int) {
  return guard("ncclCommWindowRegister", [&] {
    find_comm(comm);
    require_pointer(win, "win");
    *win = nullptr;
    require_pointer(buff, "buff");
    *win = static_cast<ncclWindow_t>(buff);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  return guard("ncclCommWindowDeregister", [&] { find_comm(comm); });
}
