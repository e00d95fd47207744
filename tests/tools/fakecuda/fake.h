// A CUDA runtime over host memory: what tests, the kernels and the NCCL beside it ask of it, other
// than CUDA's own functions. Streams and events are hostnccl's, so that a stream of either side is
// one of the other, too; kernels run on the SIMT executor; a stream's capture is kept as a graph.
//
// cudaFree and cudaFreeHost wait for all that runs on any device, as CUDA's may. What differs from
// CUDA: a default stream is done on return; a copy from or to memory of the host is the same as any
// other; all devices have the same memory.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <hostnccl.h>

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#define TERSE_FAKE __attribute__((visibility("default")))

namespace terse::fake {

constexpr int kDevices = 16;

// The n-th call of `function` that this thread makes from now on fails, and so do those after it,
// up to `times` in all.
TERSE_FAKE void fail(const std::string& function, cudaError_t error, int n = 1, int times = 1);
// Whether it has come to that; forgets it in any case.
TERSE_FAKE bool failed();
// How often this thread has called each function; ncclGroup: its groups, of one call or several,
// that NCCL had.
TERSE_FAKE std::map<std::string, size_t> calls();
// The streams that this thread has enqueued anything on, waits and NCCL's calls included.
TERSE_FAKE std::set<cudaStream_t> streams();
TERSE_FAKE void forget_streams();
// The thread's device is gone: from the n-th call on all that the thread makes fail.
TERSE_FAKE void lose_device(int n);
// Whether it has come to that; from now on it is there again.
TERSE_FAKE bool find_device();
// What cudaDriverGetVersion says; as the runtime's, at first.
TERSE_FAKE void set_driver(int version);

// The devices on which the process has a context: all that any thread has used, on purpose or
// because it is the one that a thread begins with, which is device 0.
TERSE_FAKE std::set<int> contexts();
TERSE_FAKE void forget_contexts();

// While there is one, the thread is in another context of the device than its primary one, as
// cuCtxCreate makes them; what is made in one cannot be used in the other.
class TERSE_FAKE OtherContext {
 public:
  explicit OtherContext(int device);
  ~OtherContext();
  OtherContext(const OtherContext&) = delete;
  OtherContext& operator=(const OtherContext&) = delete;
};

// While there is one, NCCL is on the device, by cudaSetDevice; in the end it sets that again on
// which it has found the thread.
class TERSE_FAKE NcclsDevice {
 public:
  explicit NcclsDevice(int device);
  ~NcclsDevice();
  NcclsDevice(const NcclsDevice&) = delete;
  NcclsDevice& operator=(const NcclsDevice&) = delete;

 private:
  const int found_;
};

// What there is at the moment.
struct Live {
  size_t streams = 0, events = 0, allocations = 0, graphs = 0, user_objects = 0;
};
TERSE_FAKE Live live();

// Bytes that are read and written; by kernels, as often as their threads ask for them.
struct Traffic {
  uint64_t read = 0, written = 0;

  bool operator==(const Traffic&) const = default;
};

// A function that cudaLaunchKernel knows. Its parameters come one behind another.
struct Kernel {
  std::vector<size_t> parameter_bytes;
  std::function<Traffic(const void* parameter, uint32_t blocks, uint32_t threads)> run;
};
TERSE_FAKE void add_kernel(const void* function, Kernel kernel);
// Traffic of the kernels and copies that this thread has enqueued, as far as they have run.
TERSE_FAKE Traffic traffic();

// Enqueues something on the stream that it is given.
using Operation = std::function<cudaError_t(cudaStream_t)>;

// Counts for this thread, when NCCL is asked: a call of `function`, and a stream.
TERSE_FAKE void count_call(const char* function);
TERSE_FAKE void count_stream(cudaStream_t stream);

// The capture that a stream takes part in, by number; 0: none.
TERSE_FAKE unsigned long long capture_of(cudaStream_t stream);
// Adds to the streams' capture what NCCL does on all of them. A graph's NCCL operations keep their
// order among each other.
TERSE_FAKE cudaError_t record_nccl(const std::vector<cudaStream_t>& streams, Operation operation);

}  // namespace terse::fake
