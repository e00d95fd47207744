// hostnccl in which who asks for the rank in a communicator of one rank has the answer when that is
// aborted.
#include <nccl.h>

#include <condition_variable>
#include <mutex>
#include <set>

namespace {

std::mutex g_mutex;
std::condition_variable g_changed;
std::set<ncclComm_t> g_asked, g_aborted;

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclCommCount) pncclCommCount;
extern decltype(ncclCommUserRank) pncclCommUserRank;
extern decltype(ncclCommAbort) pncclCommAbort;

#pragma GCC visibility push(default)

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  int ranks = 0;
  const ncclResult_t counted = pncclCommCount(comm, &ranks);
  const ncclResult_t result = pncclCommUserRank(comm, rank);
  if (counted != ncclSuccess || ranks != 1) return result;
  std::unique_lock lock(g_mutex);
  g_asked.insert(comm);
  g_changed.notify_all();
  g_changed.wait(lock, [&] { return g_aborted.contains(comm); });
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const ncclResult_t result = pncclCommAbort(comm);
  const std::lock_guard lock(g_mutex);
  if (g_asked.contains(comm)) g_aborted.insert(comm);  // else another one may have its handle later
  g_changed.notify_all();
  return result;
}

// For tests: blocks until somebody waits for that answer.
void wait_until_asked(ncclComm_t comm) {
  std::unique_lock lock(g_mutex);
  g_changed.wait(lock, [&] { return g_asked.contains(comm); });
}

#pragma GCC visibility pop

}  // extern "C"
