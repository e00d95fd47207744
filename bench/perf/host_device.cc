#include <dlfcn.h>
#include <hostnccl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "device.h"
#include "nccl_check.h"

namespace terse::perf {
namespace {

// hostnccl's streams are looked up at run time, so that the program itself asks the loader for
// nothing but NCCL's own functions.
template <typename Function>
Function* find(const char* name, Function*) {
  void* symbol = dlsym(RTLD_DEFAULT, name);
  if (symbol == nullptr) {
    throw std::runtime_error(std::string("the NCCL in use has no ") + name +
                             ": it is not hostnccl");
  }
  return reinterpret_cast<Function*>(symbol);
}

#define TERSE_PERF_FIND(name) find(#name, static_cast<decltype(&(name))>(nullptr))

int count() { return 0; }

void select(int) {}

// Of this process; its ranks share it.
std::size_t used() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

DeviceInfo describe(int) { return {"0000:00:00", "host memory"}; }

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check_nccl(ncclMemAlloc(&memory, bytes), "ncclMemAlloc");
  return memory;
}

void release(void* memory) { check_nccl(ncclMemFree(memory), "ncclMemFree"); }

// Of nothing, the addresses may be null.
void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void zero(void* memory, std::size_t bytes) {
  if (bytes != 0) std::memset(memory, 0, bytes);
}

cudaStream_t create_stream() {
  static const auto create = TERSE_PERF_FIND(hostncclStreamCreate);
  cudaStream_t stream = nullptr;
  check_nccl(create(&stream), "hostncclStreamCreate");
  return stream;
}

void destroy_stream(cudaStream_t stream) {
  static const auto destroy = TERSE_PERF_FIND(hostncclStreamDestroy);
  check_nccl(destroy(stream), "hostncclStreamDestroy");
}

void synchronize(cudaStream_t stream) {
  static const auto synchronize = TERSE_PERF_FIND(hostncclStreamSynchronize);
  check_nccl(synchronize(stream), "the collective");
}

class HostClock : public StreamClock {
 public:
  HostClock(cudaStream_t stream, std::size_t points) : stream_(stream), times_(points) {}

  void stamp(std::size_t point) override {
    static const auto launch = TERSE_PERF_FIND(hostncclLaunchHostFunc);
    const auto write_time = [](void* place) {
      const auto now = std::chrono::steady_clock::now().time_since_epoch();
      *static_cast<double*>(place) = std::chrono::duration<double>(now).count();
    };
    check_nccl(launch(stream_, write_time, &times_.at(point)), "hostncclLaunchHostFunc");
  }

  std::vector<double> seconds() const override {
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

std::unique_ptr<StreamClock> create_clock(cudaStream_t stream, std::size_t points) {
  return std::make_unique<HostClock>(stream, points);
}

#undef TERSE_PERF_FIND

}  // namespace

const Device& host_device() {
  static const Device device = {count,    select,        "Host",         used,        describe,
                                allocate, release,       copy,           copy,        copy,
                                zero,     create_stream, destroy_stream, synchronize, create_clock};
  return device;
}

}  // namespace terse::perf
