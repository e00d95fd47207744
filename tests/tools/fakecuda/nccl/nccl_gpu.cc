// An NCCL that looks like one for GPUs: it is hostnccl, none of whose own functions can be found
// through it, and adds calls on streams that are captured to their graphs, as NCCL does. Meanwhile
// it is on the communicator's device, whose number is the rank's, and NCCL_GPU_FIRST more.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "fake.h"

// What is looked for in this library is then looked for in hostnccl, which it needs. Of hostnccl's
// own functions the one that is asked for first is found here, and is nowhere.
__asm__(".globl hostncclStreamCreate\n.set hostncclStreamCreate, 0");

#define TERSE_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <class Function>
Function* find(const char* name) {
  static void* const library = dlopen(TERSE_HOSTNCCL, RTLD_NOW | RTLD_LOCAL);
  void* found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "libnccl_gpu.so finds no %s: %s\n", name, dlerror());
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

#define TERSE_NEXT(name)                                     \
  ([] {                                                      \
    static auto* const next = find<decltype(::name)>(#name); \
    return next;                                             \
  }())

using OnStream = std::function<ncclResult_t(cudaStream_t)>;

struct Call {
  ncclComm_t comm;
  cudaStream_t stream;
  OnStream run;
};

// What the thread's group has on captured streams.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Call> calls;
  std::map<ncclComm_t, unsigned long long> captures;  // of all of a communicator's calls; 0: none
};
thread_local Group t_group;

std::atomic<size_t> g_frees_at_destroy{0};

// A stream of the communicator's own, for ever.
cudaStream_t stream_of(ncclComm_t comm) {
  static std::mutex mutex;
  static auto& streams = *new std::map<ncclComm_t, cudaStream_t>;
  const std::lock_guard lock(mutex);
  cudaStream_t& stream = streams[comm];
  if (stream == nullptr) TERSE_NEXT(hostncclStreamCreate)(&stream);
  return stream;
}

void follow(cudaStream_t stream, cudaStream_t before) {
  hostncclEvent_t event = nullptr;
  TERSE_NEXT(hostncclEventCreate)(&event);
  TERSE_NEXT(hostncclEventRecord)(event, before);
  TERSE_NEXT(hostncclStreamWaitEvent)(stream, event);
  TERSE_NEXT(hostncclEventDestroy)(event);
}

// One group, in the stream's order. Several communicators of a group wait for each other, which
// they could not do on one stream.
ncclResult_t run_together(const std::vector<Call>& calls, cudaStream_t stream) {
  std::set<ncclComm_t> comms;
  for (const Call& call : calls) comms.insert(call.comm);
  const bool alone = comms.size() == 1;
  if (!alone)
    for (const ncclComm_t comm : comms) follow(stream_of(comm), stream);
  ncclResult_t first = TERSE_NEXT(ncclGroupStart)();
  for (const Call& call : calls) {
    const ncclResult_t result = call.run(alone ? stream : stream_of(call.comm));
    if (first == ncclSuccess) first = result;
  }
  const ncclResult_t end = TERSE_NEXT(ncclGroupEnd)();
  if (!alone)
    for (const ncclComm_t comm : comms) follow(stream, stream_of(comm));
  return first == ncclSuccess ? end : first;
}

// Each capture gets the part that is on its streams.
ncclResult_t record(const std::vector<Call>& calls) {
  std::map<unsigned long long, std::vector<Call>> parts;
  for (const Call& call : calls) parts[terse::fake::capture_of(call.stream)].push_back(call);
  for (const auto& [capture, part] : parts) {
    if (capture == 0) return ncclInvalidUsage;
    std::vector<cudaStream_t> streams;
    for (const Call& call : part) streams.push_back(call.stream);
    const cudaError_t result =
        terse::fake::record_nccl(streams, [part = part](cudaStream_t stream) {
          return run_together(part, stream) == ncclSuccess ? cudaSuccess : cudaErrorUnknown;
        });
    if (result != cudaSuccess) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

ncclResult_t end_group() {
  if (--t_group.depth > 0) return ncclSuccess;
  const Group group = std::exchange(t_group, {});
  if (!group.captures.empty()) terse::fake::count_call("ncclGroup");
  return group.error != ncclSuccess ? group.error : record(group.calls);
}

ncclResult_t device_of(const ncclComm_t comm, int* device) {
  static const char* const first = std::getenv("NCCL_GPU_FIRST");
  const ncclResult_t result = TERSE_NEXT(ncclCommUserRank)(comm, device);
  if (result == ncclSuccess && first != nullptr) *device += std::atoi(first);
  return result;
}

// All that a communicator has in a group is captured in one graph, or none of it is.
ncclResult_t call(ncclComm_t comm, cudaStream_t stream, const OnStream& run) {
  int device = 0;
  std::optional<terse::fake::NcclsDevice> on;
  if (device_of(comm, &device) == ncclSuccess) on.emplace(device);
  const unsigned long long capture = terse::fake::capture_of(stream);
  terse::fake::count_stream(stream);
  const bool alone = t_group.depth == 0;
  if (alone) ++t_group.depth;
  ncclResult_t result = ncclSuccess;
  if (t_group.captures.emplace(comm, capture).first->second != capture)
    result = ncclInvalidUsage;
  else if (capture == 0)
    result = run(stream);
  else
    t_group.calls.push_back({comm, stream, run});
  if (result != ncclSuccess && t_group.error == ncclSuccess) t_group.error = result;
  return alone ? end_group() : result;
}

}  // namespace

TERSE_EXPORT const char* ncclGetLastError(ncclComm_t comm) {
  return TERSE_NEXT(ncclGetLastError)(comm);
}
// Of a communicator that is not ready NCCL tells nothing but that.
static ncclResult_t check_ready(const ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = TERSE_NEXT(ncclCommGetAsyncError)(comm, &state);
  if (asked != ncclSuccess) return asked;
  return state == ncclInProgress ? ncclInvalidArgument : state;
}
TERSE_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  const ncclResult_t ready = check_ready(comm);
  return ready != ncclSuccess ? ready : TERSE_NEXT(ncclCommCount)(comm, count);
}
TERSE_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  const ncclResult_t ready = check_ready(comm);
  return ready != ncclSuccess ? ready : TERSE_NEXT(ncclCommUserRank)(comm, rank);
}
TERSE_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return TERSE_NEXT(ncclCommGetAsyncError)(comm, error);
}
TERSE_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  const ncclResult_t ready = check_ready(comm);
  return ready != ncclSuccess ? ready : device_of(comm, device);
}

TERSE_EXPORT ncclResult_t ncclAllReduce(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                        cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclAllReduce)(send, recv, count, type, op, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclAllGather(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclAllGather)(send, recv, count, type, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* recv, size_t count,
                                            ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                            cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclReduceScatter)(send, recv, count, type, op, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclBroadcast(const void* send, void* recv, size_t count,
                                        ncclDataType_t type, int root, ncclComm_t comm,
                                        cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclBroadcast)(send, recv, count, type, root, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclReduce(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, ncclRedOp_t op, int root, ncclComm_t comm,
                                     cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclReduce)(send, recv, count, type, op, root, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclAlltoAll(const void* send, void* recv, size_t count,
                                       ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclAlltoAll)(send, recv, count, type, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclGather(const void* send, void* recv, size_t count,
                                     ncclDataType_t type, int root, ncclComm_t comm,
                                     cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclGather)(send, recv, count, type, root, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclScatter(const void* send, void* recv, size_t count,
                                      ncclDataType_t type, int root, ncclComm_t comm,
                                      cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclScatter)(send, recv, count, type, root, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclSend)(send, count, type, peer, comm, on);
  });
}
TERSE_EXPORT ncclResult_t ncclRecv(void* recv, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, [=](cudaStream_t on) {
    return TERSE_NEXT(ncclRecv)(recv, count, type, peer, comm, on);
  });
}

TERSE_EXPORT ncclResult_t ncclGroupStart(void) {
  ++t_group.depth;
  return TERSE_NEXT(ncclGroupStart)();
}
TERSE_EXPORT ncclResult_t ncclGroupEnd(void) {
  const ncclResult_t forwarded = TERSE_NEXT(ncclGroupEnd)();
  const ncclResult_t recorded = t_group.depth > 0 ? end_group() : ncclSuccess;
  return forwarded != ncclSuccess ? forwarded : recorded;
}

// What NCCL has registered of the program's memory it lets go of here.
TERSE_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  g_frees_at_destroy = terse::fake::calls()["cudaFree"];
  return TERSE_NEXT(ncclCommDestroy)(comm);
}

// For tests: how often cudaFree had been called when a communicator was last destroyed.
TERSE_EXPORT size_t nccl_gpu_frees_at_destroy() { return g_frees_at_destroy; }
