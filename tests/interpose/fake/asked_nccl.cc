// hostnccl in which a communicator has failed for good once two threads have asked at a time how
// far it is: NCCL's ncclCommGetAsyncError frees what is over, and two threads in it would both.
#include <nccl.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

namespace {

struct Asking {
  int threads = 0;
  bool torn = false;
};

std::mutex g_mutex;
std::map<ncclComm_t, Asking> g_asking;

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

__attribute__((visibility("default"))) ncclResult_t ncclCommGetAsyncError(ncclComm_t comm,
                                                                          ncclResult_t* state) {
  begin(comm);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const ncclResult_t result = pncclCommGetAsyncError(comm, state);
  if (end(comm)) *state = ncclInternalError;
  return result;
}

}  // extern "C"
