#include <cuda_runtime_api.h>

#include <cstdio>
#include <stdexcept>

#include "device.h"

namespace terse::perf {
namespace {

void Check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(result));
}

int Count() {
  int count = 0;
  Check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

void Select(int index) { Check(cudaSetDevice(index), "cudaSetDevice"); }

DeviceInfo Describe(int index) {
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  char bus_id[32];
  std::snprintf(bus_id, sizeof(bus_id), "%04x:%02x:%02x", properties.pciDomainID,
                properties.pciBusID, properties.pciDeviceID);
  return {bus_id, properties.name};
}

void* Allocate(std::size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "cudaMalloc");
  return memory;
}

void Release(void* memory) { Check(cudaFree(memory), "cudaFree"); }

// The streams below do not wait for the null stream, on which these run, so that each must be done
// on return.
void Finish() { Check(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize"); }

void Copy(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  Finish();
}

void Zero(void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  Check(cudaMemset(memory, 0, bytes), "cudaMemset");
  Finish();
}

cudaStream_t CreateStream() {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream;
}

void DestroyStream(cudaStream_t stream) { Check(cudaStreamDestroy(stream), "cudaStreamDestroy"); }

void Synchronize(cudaStream_t stream) { Check(cudaStreamSynchronize(stream), "the collective"); }

// Events, made before the clock runs.
class EventClock : public StreamClock {
 public:
  EventClock(cudaStream_t stream, std::size_t points)
      : stream_(stream), events_(points), marked_(points) {
    for (cudaEvent_t& event : events_) Check(cudaEventCreate(&event), "cudaEventCreate");
  }
  ~EventClock() override {
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
  }

  void Stamp(std::size_t point) override {
    Check(cudaEventRecord(events_.at(point), stream_), "cudaEventRecord");
    marked_[point] = true;
  }

  // From each to the next one: a difference is a float, whose precision long spans would take.
  std::vector<double> Seconds() const override {
    std::vector<double> seconds(events_.size());
    double sum = 0;
    cudaEvent_t last = nullptr;
    for (std::size_t point = 0; point < events_.size(); ++point) {
      if (!marked_[point]) continue;
      float milliseconds = 0;
      if (last != nullptr) {
        Check(cudaEventSynchronize(events_[point]), "cudaEventSynchronize");
        Check(cudaEventElapsedTime(&milliseconds, last, events_[point]), "cudaEventElapsedTime");
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

std::unique_ptr<StreamClock> CreateClock(cudaStream_t stream, std::size_t points) {
  return std::make_unique<EventClock>(stream, points);
}

}  // namespace

const Device& CudaDevice() {
  static const Device device = {Count,         Select,      Describe,   Allocate, Release,
                                Copy,          Copy,        Copy,       Zero,     CreateStream,
                                DestroyStream, Synchronize, CreateClock};
  return device;
}

}  // namespace terse::perf
