// hostnccl in which a group with an AllGather does not end before its communicator is aborted, as
// where NCCL connects its ranks, and one of them never comes.
#include <nccl.h>

#include <condition_variable>
#include <mutex>
#include <set>

namespace {

std::mutex g_mutex;
std::condition_variable g_abort;
std::set<ncclComm_t> g_aborted;
thread_local ncclComm_t t_gathers = nullptr;

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclAllGather) pncclAllGather;
extern decltype(ncclGroupEnd) pncclGroupEnd;
extern decltype(ncclCommAbort) pncclCommAbort;

#pragma GCC visibility push(default)

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  t_gathers = comm;
  return pncclAllGather(send, recv, count, datatype, comm, stream);
}

ncclResult_t ncclGroupEnd() {
  const ncclResult_t result = pncclGroupEnd();
  if (t_gathers == nullptr) return result;
  std::unique_lock lock(g_mutex);
  g_abort.wait(lock, [] { return g_aborted.contains(t_gathers); });
  t_gathers = nullptr;
  return ncclInternalError;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t result = pncclCommAbort(comm);
  const std::lock_guard lock(g_mutex);
  g_aborted.insert(comm);
  g_abort.notify_all();
  return result;
}

#pragma GCC visibility pop

}  // extern "C"
