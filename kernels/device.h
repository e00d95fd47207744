// The CUDA runtime's errors as terse's, and the state that it keeps for a thread.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <new>
#include <string>

#include "base/error.h"
#include "base/first_made.h"

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

// The driver's functions for contexts. The program's driver is asked for them, so that there is
// none to link.
struct Driver {
  PFN_cuDevicePrimaryCtxRetain_v7000 retain;
  PFN_cuCtxGetCurrent_v4000 current;
  PFN_cuCtxPushCurrent_v4000 push;
  PFN_cuCtxPopCurrent_v4000 pop;
  PFN_cuDeviceGetName_v2000 name;
};

template <class Function>
void find(const char* name, Function& function) {
  void* found = nullptr;
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, nullptr), name);
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, nullptr), name);
#endif
  if (found == nullptr) fail(ncclSystemError, "the driver has no {}", name);
  function = reinterpret_cast<Function>(found);
}

inline const Driver& driver() {
  static constinit std::atomic<const Driver*> place{nullptr};
  return first_made(place, [] {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");  // readies the driver
    Driver d{};
    find("cuDevicePrimaryCtxRetain", d.retain);
    find("cuCtxGetCurrent", d.current);
    find("cuCtxPushCurrent", d.push);
    find("cuCtxPopCurrent", d.pop);
    find("cuDeviceGetName", d.name);
    return d;
  });
}

// Errors of the driver and of the runtime have the same numbers.
inline cudaError_t result_of(CUresult result) { return static_cast<cudaError_t>(result); }

// A device, and its primary context, which the runtime and NCCL work with; kept for good.
class Device {
 public:
  explicit Device(int number) : number(number) {
    check(result_of(driver().retain(&context_, number)), "cuDevicePrimaryCtxRetain");
  }

  // Makes the context the thread's own, until leave(), which follows where that succeeded.
  cudaError_t enter() const noexcept { return result_of(driver().push(context_)); }
  static void leave() noexcept {
    CUcontext own = nullptr;
    driver().pop(&own);
  }
  // Sets `is_there` to whether it is the thread's own.
  cudaError_t ask(bool& is_there) const noexcept {
    CUcontext own = nullptr;
    const cudaError_t asked = result_of(driver().current(&own));
    is_there = own == context_;
    return asked;
  }

  const int number;

 private:
  CUcontext context_ = nullptr;
};

// Makes a device's context the thread's own for a while. Not by cudaSetDevice, which could not be
// taken back: on a thread that has used no device, it would make a context on device 0, some
// hundred megabytes. What cannot be said there is said where the thread is.
class InContext {
 public:
  explicit InContext(const Device& device) noexcept : entered(device.enter()) {}
  ~InContext() {
    if (entered == cudaSuccess) Device::leave();
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

  const cudaError_t entered;
};

// OnDevice for a thread that may be on another device, or in another context of this one: a program
// may make contexts, of which the runtime names only the device.
class OnDevice {
 public:
  explicit OnDevice(const Device& device) : OnDevice(device, std::nothrow) {
    check(asked_, "cuCtxGetCurrent");
    check(entered_, "cuCtxPushCurrent");
  }
  OnDevice(const Device& device, std::nothrow_t) noexcept {
    bool is_there = false;
    asked_ = device.ask(is_there);
    if (asked_ != cudaSuccess || is_there) return;
    entered_ = device.enter();
    leaves_ = entered_ == cudaSuccess;
  }
  ~OnDevice() {
    if (leaves_) Device::leave();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  cudaError_t asked_ = cudaSuccess, entered_ = cudaSuccess;
  bool leaves_ = false;
};

// While a stream of the process is being captured, other calls that allocate or wait would break
// the capture, unless their thread says that it knows what it does.
class DuringCapture {
 public:
  DuringCapture() : exchanged_(cudaThreadExchangeStreamCaptureMode(&mode_)) { forget(exchanged_); }
  ~DuringCapture() {
    if (exchanged_ == cudaSuccess) forget(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  DuringCapture(const DuringCapture&) = delete;
  DuringCapture& operator=(const DuringCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
  const cudaError_t exchanged_;
};

}  // namespace terse::cuda
