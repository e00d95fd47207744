#include <cuda_runtime_api.h>

#include <cstdio>
#include <stdexcept>

#include "device.h"

namespace terse::perf {
namespace {

void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(result));
}

int count() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

void select(int index) { check(cudaSetDevice(index), "cudaSetDevice"); }

std::size_t used() {
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return total - free;
}

DeviceInfo describe(int index) {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  char bus_id[32];
  std::snprintf(bus_id, sizeof(bus_id), "%04x:%02x:%02x", properties.pciDomainID,
                properties.pciBusID, properties.pciDeviceID);
  return {bus_id, properties.name};
}

void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void release(void* memory) { check(cudaFree(memory), "cudaFree"); }

// The streams below do not wait for the null stream, on which these run, so that each must be done
// on return.
void finish() { check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"); }

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  finish();
}

void zero(void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemset(memory, 0, bytes), "cudaMemset");
  finish();
}

cudaStream_t create_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

void destroy_stream(cudaStream_t stream) { check(cudaStreamDestroy(stream), "cudaStreamDestroy"); }

void synchronize(cudaStream_t stream) { check(cudaStreamSynchronize(stream), "the collective"); }

// Events, made before the clock runs.
class EventClock : public StreamClock {
 public:
  EventClock(cudaStream_t stream, std::size_t points)
      : stream_(stream), events_(points), marked_(points) {
    for (cudaEvent_t& event : events_) check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~EventClock() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void stamp(std::size_t point) override {
    check(cudaEventRecord(events_.at(point), stream_), "cudaEventRecord");
    marked_[point] = true;
  }

  // From each to the next one: a difference is a float, whose precision long spans would take.
  std::vector<double> seconds() const override {
    std::vector<double> seconds(events_.size());
    double sum = 0;
    cudaEvent_t last = nullptr;
    for (std::size_t point = 0; point < events_.size(); ++point) {
      if (!marked_[point]) continue;
      float milliseconds = 0;
      if (last != nullptr) {
        check(cudaEventSynchronize(events_[point]), "cudaEventSynchronize");
        check(cudaEventElapsedTime(&milliseconds, last, events_[point]), "cudaEventElapsedTime");
      }
      sum += static_cast<double>(milliseconds) * 1e-3;
      seconds[point] = sum;
      last = events_[point];
    }
    return seconds;
  }

 private:
  cudaStream_t stream_;
  std::vector<cudaEvent_t> events_;
  std::vector<bool> marked_;
};

std::unique_ptr<StreamClock> create_clock(cudaStream_t stream, std::size_t points) {
  return std::make_unique<EventClock>(stream, points);
}

}  // namespace

const Device& cuda_device() {
  static const Device device = {count,    select,        "GPU",          used,        describe,
                                allocate, release,       copy,           copy,        copy,
                                zero,     create_stream, destroy_stream, synchronize, create_clock};
  return device;
}

}  // namespace terse::perf
