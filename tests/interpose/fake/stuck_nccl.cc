// hostnccl in which a group with an AllGather does not end before its communicator is aborted, as
// where NCCL connects its ranks, and one of them never comes.
#include <nccl.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>

namespace {

std::mutex g_mutex;
std::condition_variable g_changed;
std::set<ncclComm_t> g_waiting;
std::map<ncclComm_t, int> g_aborts;
thread_local ncclComm_t t_gathers = nullptr;
thread_local int t_aborts_before = 0;  // of whatever had its handle

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclAllGather) pncclAllGather;
extern decltype(ncclGroupEnd) pncclGroupEnd;
extern decltype(ncclCommAbort) pncclCommAbort;

#pragma GCC visibility push(default)

// For tests, too.
int aborts_of(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  return g_aborts[comm];
}

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  t_gathers = comm;
  t_aborts_before = aborts_of(comm);
  return pncclAllGather(send, recv, count, datatype, comm, stream);
}

ncclResult_t ncclGroupEnd() {
  const ncclResult_t result = pncclGroupEnd();
  if (t_gathers == nullptr) return result;
  std::unique_lock lock(g_mutex);
  g_waiting.insert(t_gathers);
  g_changed.notify_all();
  g_changed.wait(lock, [] { return g_aborts[t_gathers] != t_aborts_before; });
  g_waiting.erase(t_gathers);
  t_gathers = nullptr;
  return ncclInternalError;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t result = pncclCommAbort(comm);
  const std::lock_guard lock(g_mutex);
  ++g_aborts[comm];
  g_changed.notify_all();
  return result;
}

// For tests: blocks until somebody waits so.
void wait_until_stuck(ncclComm_t comm) {
  std::unique_lock lock(g_mutex);
  g_changed.wait(lock, [&] { return g_waiting.contains(comm); });
}

#pragma GCC visibility pop

}  // extern "C"
