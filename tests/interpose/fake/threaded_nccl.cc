// hostnccl with the jobs of NCCL 2.23.4 to 2.25: that of a collective on a communicator which does
// not block lies in memory of the thread that called, until another function is called on the
// communicator, the one that aborts it too. (ncclGroupJobMain in NCCL's group.cc)
#include <nccl.h>

#include <atomic>
#include <map>
#include <mutex>

namespace {

struct Job {
  ~Job();
};

std::mutex g_mutex;
std::map<ncclComm_t, const Job*> g_jobs;
std::atomic<int> g_left{0};
thread_local const Job t_job;

Job::~Job() {
  const std::lock_guard lock(g_mutex);
  for (const auto& [comm, job] : g_jobs) g_left += job == this;
  std::erase_if(g_jobs, [&](const auto& pair) { return pair.second == this; });
}

void begin_job(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  g_jobs[comm] = &t_job;
}

void end_job(ncclComm_t comm) {
  const std::lock_guard lock(g_mutex);
  g_jobs.erase(comm);
}

}  // namespace

extern "C" {

// Not by the names that a preload library may have.
extern decltype(ncclAllGather) pncclAllGather;
extern decltype(ncclCommAbort) pncclCommAbort;
extern decltype(ncclCommCount) pncclCommCount;
extern decltype(ncclCommDestroy) pncclCommDestroy;
extern decltype(ncclCommUserRank) pncclCommUserRank;

#pragma GCC visibility push(default)

ncclResult_t ncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t datatype,
                           ncclComm_t comm, cudaStream_t stream) {
  begin_job(comm);
  return pncclAllGather(send, recv, count, datatype, comm, stream);
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  end_job(comm);
  return pncclCommCount(comm, count);
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  end_job(comm);
  return pncclCommUserRank(comm, rank);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  end_job(comm);
  return pncclCommAbort(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  end_job(comm);
  return pncclCommDestroy(comm);
}

// For tests: how many jobs there were of communicators when a thread of theirs had ended.
int jobs_left() { return g_left; }

#pragma GCC visibility pop

}  // extern "C"
