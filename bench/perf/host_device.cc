#include <dlfcn.h>
#include <hostnccl.h>

#include <chrono>
#include <cstring>
#include <stdexcept>

#include "device.h"
#include "nccl_check.h"

namespace terse::perf {
namespace {

// hostnccl's streams are looked up at run time, so that the program itself asks the loader for
// nothing but NCCL's own functions.
template <typename Function>
Function* Find(const char* name, Function*) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("the NCCL in use has no ") + name +
                             ": it is not hostnccl");
  }
  return reinterpret_cast<Function*>(symbol);
}

#define TERSE_PERF_FIND(name) Find(#name, static_cast<decltype(&(name))>(nullptr))

int Count() { return 0; }

void Select(int) {}

DeviceInfo Describe(int) { return {"0000:00:00", "host memory"}; }

void* Allocate(std::size_t bytes) {
  void* memory = nullptr;
  CheckNccl(ncclMemAlloc(&memory, bytes), "ncclMemAlloc");
  return memory;
}

void Release(void* memory) { CheckNccl(ncclMemFree(memory), "ncclMemFree"); }

// Of nothing, the addresses may be null.
void Copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void Zero(void* memory, std::size_t bytes) {
  if (bytes != 0) std::memset(memory, 0, bytes);
}

cudaStream_t CreateStream() {
  static const auto create = TERSE_PERF_FIND(hostncclStreamCreate);
  cudaStream_t stream = nullptr;
  CheckNccl(create(&stream), "hostncclStreamCreate");
  return stream;
}

void DestroyStream(cudaStream_t stream) {
  static const auto destroy = TERSE_PERF_FIND(hostncclStreamDestroy);
  CheckNccl(destroy(stream), "hostncclStreamDestroy");
}

void Synchronize(cudaStream_t stream) {
  static const auto synchronize = TERSE_PERF_FIND(hostncclStreamSynchronize);
  CheckNccl(synchronize(stream), "the collective");
}

class HostClock : public StreamClock {
 public:
  HostClock(cudaStream_t stream, std::size_t points) : stream_(stream), times_(points) {}

  void Stamp(std::size_t point) override {
    static const auto launch = TERSE_PERF_FIND(hostncclLaunchHostFunc);
    const auto write_time = [](void* place) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      *static_cast<double*>(place) = std::chrono::duration<double>(now).count();
    };
    CheckNccl(launch(stream_, write_time, &times_.at(point)), "hostncclLaunchHostFunc");
  }

  std::vector<double> Seconds() const override {
    std::vector<double> seconds(times_.size());
    double first = 0;
    for (std::size_t point = 0; point < times_.size(); ++point) {
      if (times_[point] == 0) continue;  // not marked
      if (first == 0) first = times_[point];
      seconds[point] = times_[point] - first;
    }
    return seconds;
  }

 private:
  cudaStream_t stream_;
  std::vector<double> times_;
};

std::unique_ptr<StreamClock> CreateClock(cudaStream_t stream, std::size_t points) {
  return std::make_unique<HostClock>(stream, points);
}

#undef TERSE_PERF_FIND

}  // namespace

const Device& HostDevice() {
  static const Device device = {
      Count, Select,       Describe,      Allocate,    Release, Copy, Copy, Copy,
      Zero,  CreateStream, DestroyStream, Synchronize, CreateClock};
  return device;
}

}  // namespace terse::perf
