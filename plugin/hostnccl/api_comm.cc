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

void CheckNumber(int value, int low, int high, const char* name) {
  if (value == NCCL_CONFIG_UNDEF_INT || (value >= low && value <= high)) return;
  Fail(ncclInvalidArgument, "config.{} is {}", name, value);
}

Config ReadConfig(const ncclConfig_t* given, const Config& inherited) {
  Config config = inherited;
  if (given != nullptr) {
    size_t size = 0;
    std::memcpy(&size, given, sizeof(size));
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    const unsigned int magic = known.magic;
    // An older program's structure ends early: nothing behind its end is read.
    if (size >= kOldestConfig) std::memcpy(&known, given, std::min(size, sizeof(known)));
    Require(size >= kOldestConfig && known.magic == magic, ncclInvalidArgument,
            "config was not set to NCCL_CONFIG_INITIALIZER");
    CheckNumber(known.blocking, 0, 1, "blocking");
    CheckNumber(known.minCTAs, 1, INT_MAX, "minCTAs");
    CheckNumber(known.maxCTAs, 1, INT_MAX, "maxCTAs");
    if (known.blocking != NCCL_CONFIG_UNDEF_INT) config.blocking = known.blocking != 0;
    if (known.commName != nullptr) config.name = known.commName;
  }
  config.blocking = ReadSettings().blocking.value_or(config.blocking);
  return config;
}

ncclResult_t InitRank(ncclComm_t* comm, int nranks, const ncclUniqueId& id, int rank,
                      const ncclConfig_t* given) {
  RequirePointer(comm, "comm");
  *comm = nullptr;
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    Fail(ncclInvalidArgument, "rank {} of {} is not possible", rank, nranks);
  }
  const Config config = ReadConfig(given, {});
  return Group::Current().Add(
      {.start = [=, meet = MeetById(id, rank, nranks)] { return Comm::Start(config, meet); },
       .out = comm,
       .blocking = config.blocking,
       .parent = nullptr});
}

// As NCCL does it: a part of a communicator that does not block is said to have been made, and the
// parent's state says that it is in progress.
ncclResult_t AddPart(PendingInit part) {
  const ncclResult_t result = Group::Current().Add(std::move(part));
  return result == ncclInProgress ? ncclSuccess : result;
}

void RequireDistinct(const int* numbers, int count, int end, const char* name) {
  std::set<int> seen;
  for (int i = 0; i < count; ++i) {
    if (numbers[i] < 0 || numbers[i] >= end || !seen.insert(numbers[i]).second) {
      Fail(ncclInvalidArgument, "{}[{}] is {}: out of range or given twice", name, i, numbers[i]);
    }
  }
}

}  // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return Guard("ncclGetUniqueId", [&] {
    RequirePointer(uniqueId, "uniqueId");
    *uniqueId = MakeUniqueId(ReadSettings());
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return Guard("ncclCommInitRank", [&] { return InitRank(comm, nranks, commId, rank, nullptr); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return Guard("ncclCommInitRankConfig",
               [&] { return InitRank(comm, nranks, commId, rank, config); });
}

// Several ids spread the load of very many ranks; the first one serves ours.
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config) {
  return Guard("ncclCommInitRankScalable", [&] {
    RequirePointer(commIds, "commIds");
    if (nId < 1 || nId > nranks) Fail(ncclInvalidArgument, "nId {} is not possible", nId);
    return InitRank(newcomm, nranks, commIds[0], myrank, config);
  });
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return Guard("ncclCommInitAll", [&] {
    RequirePointer(comm, "comm");
    if (ndev < 1) Fail(ncclInvalidArgument, "ndev is {}", ndev);
    if (devlist != nullptr) RequireDistinct(devlist, ndev, INT_MAX, "devlist");
    const ncclUniqueId id = MakeUniqueId({.timeout = ReadSettings().timeout,
                                          .interface = ReadSettings().interface,
                                          .comm_id = {},
                                          .blocking = {}});
    Group& group = Group::Current();
    group.Start();
    try {
      for (int rank = 0; rank < ndev; ++rank) InitRank(&comm[rank], ndev, id, rank, nullptr);
    } catch (const Failure& failure) {
      group.Note(failure);
    }
    return group.End();
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return Guard("ncclCommSplit", [&] {
    RequirePointer(newcomm, "newcomm");
    *newcomm = nullptr;
    const CommPtr parent = FindComm(comm);
    parent->CheckUsable();
    Require(color >= 0 || color == NCCL_SPLIT_NOCOLOR, ncclInvalidArgument, "color is negative");
    const Config child = ReadConfig(config, parent->config());
    return AddPart({.start = [=] { return Comm::Start(child, MeetBySplit(parent, color, key)); },
                    .out = newcomm,
                    .blocking = child.blocking,
                    .parent = parent});
  });
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags) {
  return Guard("ncclCommShrink", [&] {
    RequirePointer(newcomm, "newcomm");
    *newcomm = nullptr;
    RequirePointer(excludeRanksList, "excludeRanksList");
    const CommPtr parent = FindComm(comm);
    parent->WaitUntilReady();
    if (excludeRanksCount < 1 || excludeRanksCount >= parent->size()) {
      Fail(ncclInvalidArgument, "excludeRanksCount is {}", excludeRanksCount);
    }
    RequireDistinct(excludeRanksList, excludeRanksCount, parent->size(), "excludeRanksList");
    const std::vector<int> excluded(excludeRanksList, excludeRanksList + excludeRanksCount);
    const bool abort = shrinkFlags == NCCL_SHRINK_ABORT;
    if (!abort) parent->CheckUsable();
    const Config child = ReadConfig(config, parent->config());
    return AddPart({.start =
                        [=] {
                          if (abort) parent->Quiesce();
                          return Comm::Start(child, MeetByShrink(parent, excluded));
                        },
                    .out = newcomm,
                    .blocking = child.blocking,
                    .parent = parent});
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return Guard("ncclCommFinalize", [&] {
    const CommPtr found = FindComm(comm);
    found->Finalize();
    if (found->config().blocking) found->WaitUntilLeft();
    return found->config().blocking ? ncclSuccess : found->AsyncError();
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return Guard("ncclCommDestroy", [&] { CommHandles::Take(comm, "comm")->Destroy(); });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return Guard("ncclCommAbort", [&] { CommHandles::Take(comm, "comm")->Abort(); });
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  return Guard("ncclCommRevoke", [&] {
    Require(revokeFlags == NCCL_REVOKE_DEFAULT, ncclInvalidArgument, "revokeFlags must be 0");
    const CommPtr found = FindComm(comm);
    found->RequireInitialized();
    found->Quiesce();
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return Guard("ncclCommGetAsyncError", [&] {
    RequirePointer(asyncError, "asyncError");
    *asyncError = FindComm(comm)->AsyncError();
  });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return Guard("ncclCommCount", [&] {
    RequirePointer(count, "count");
    const CommPtr found = FindComm(comm);
    found->RequireInitialized();
    *count = found->size();
  });
}

// There is no device: ranks take the place of device numbers.
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return Guard("ncclCommCuDevice", [&] {
    RequirePointer(device, "device");
    const CommPtr found = FindComm(comm);
    found->RequireInitialized();
    *device = found->rank();
  });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return Guard("ncclCommUserRank", [&] {
    RequirePointer(rank, "rank");
    const CommPtr found = FindComm(comm);
    found->RequireInitialized();
    *rank = found->rank();
  });
}

// Registration makes nothing faster here. The handle is the buffer's address, for want of another.
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle) {
  return Guard("ncclCommRegister", [&] {
    FindComm(comm);
    RequirePointer(handle, "handle");
    *handle = nullptr;
    if (size > 0) RequirePointer(buff, "buff");
    *handle = buff;
  });
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return Guard("ncclCommDeregister", [&] { FindComm(comm); });
}

// A window is accepted like any registration: programs that only want speed go on, and the device
// functions that could tell the difference do not exist without a device.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t, ncclWindow_t* win, int) {
  return Guard("ncclCommWindowRegister", [&] {
    FindComm(comm);
    RequirePointer(win, "win");
    *win = nullptr;
    RequirePointer(buff, "buff");
    *win = static_cast<ncclWindow_t>(buff);
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  return Guard("ncclCommWindowDeregister", [&] { FindComm(comm); });
}
