// The CUDA runtime's errors as terse's, and the state that it keeps for a thread.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "base/error.h"

namespace terse::cuda {

// The runtime keeps a thread's last error until it is asked for it. The program must not find one
// that it did not cause: what is no success goes through here or through check().
inline void forget(cudaError_t result) {
  if (result != cudaSuccess) cudaGetLastError();
}

// Throws Error unless `result` is success.
inline void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  forget(result);
  fail(ncclUnhandledCudaError, "{} gave {} ({})", call, cudaGetErrorName(result),
       cudaGetErrorString(result));
}

inline std::string version(int number) {
  return fmt::format("{}.{}", number / 1000, number / 10 % 100);
}

// The runtime that is linked in works with drivers from its own major version on.
inline void require_driver() {
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  if (driver / 1000 < CUDART_VERSION / 1000)
    fail(ncclSystemError,
         "the driver is for CUDA {}, but terse's CUDA module was built with {}: it takes a driver "
         "for CUDA {} or newer, or a module built with the older one",
         version(driver), version(CUDART_VERSION), CUDART_VERSION / 1000);
}

// Makes a device the thread's own for a while.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ == device) return;
    check(cudaSetDevice(device), "cudaSetDevice");
    changed_ = true;
  }
  ~OnDevice() {
    if (changed_) forget(cudaSetDevice(before_));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

// While a stream of the process is being captured, other calls that allocate or wait would break
// the capture, unless their thread says that it knows what it does.
class DuringCapture {
 public:
  DuringCapture() { forget(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~DuringCapture() { forget(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  DuringCapture(const DuringCapture&) = delete;
  DuringCapture& operator=(const DuringCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace terse::cuda
