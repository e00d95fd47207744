// Memory of the GPU, and what goes to it and comes back.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace terse::gpu {

inline void check(cudaError_t result, const char* call) {
  if (result != cudaSuccess)
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(result));
}

inline int devices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) : size_(bytes) {
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  uint8_t* data() const { return static_cast<uint8_t*>(data_); }
  size_t size() const { return size_; }

  void put(const void* from, size_t bytes, size_t at = 0) const {
    check(cudaMemcpy(data() + at, from, bytes, cudaMemcpyHostToDevice), "cudaMemcpy to the GPU");
  }
  void get(void* to, size_t bytes, size_t at = 0) const {
    check(cudaMemcpy(to, data() + at, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy from the GPU");
  }
  // All bytes the same, so that what nobody writes shows.
  void fill(uint8_t byte) const { check(cudaMemset(data_, byte, size_), "cudaMemset"); }

 private:
  void* data_ = nullptr;
  size_t size_;
};

}  // namespace terse::gpu
