// hostnccl in which a communicator has failed for good once two threads have asked at a time how
// far it is: NCCL's ncclCommGetAsyncError frees what is over, and two threads in it would both. And
// ncclCommRevoke comes back, long after what it does, when it is told to.
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace {

struct Asking {
  int threads = 0;
  bool torn = false;
};

std::mutex g_mutex;
std::map<ncclComm_t, Asking> g_asking;
std::condition_variable g_changed;
std::set<ncclComm_t> g_revoked, g_returning;

void begin(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  Asking& asking = g_asking[comm];
  if (++asking.threads > 1) asking.torn = true;
}

// Whether it has failed.
bool end(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  Asking& asking = g_asking[comm];
  --asking.threads;
  return asking.torn;
}

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclCommGetAsyncError) pncclCommGetAsyncError;
extern decltype(ncclCommRevoke) pncclCommRevoke;

#pragma GCC visibility push(default)

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  begin(comm);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const ncclResult_t result = pncclCommGetAsyncError(comm, state);
  if (end(comm)) *state = ncclInternalError;
  return result;
}

ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  const ncclResult_t result = pncclCommRevoke(comm, flags);
  std::unique_lock lock(g_mutex);
  g_revoked.insert(comm);
  g_changed.notify_all();
  g_changed.wait(lock, [&] { return g_returning.contains(comm); });
  return result;
}

// For tests: blocks until the communicator is revoked.
void wait_until_revoked(ncclComm_t comm) {
  std::unique_lock lock(g_mutex);
  g_changed.wait(lock, [&] { return g_revoked.contains(comm); });
}

void let_revoke_return(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  g_returning.insert(comm);
  g_changed.notify_all();
}

#pragma GCC visibility pop

}  // extern "C"
