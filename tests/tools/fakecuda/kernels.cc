// Kernel launches, on the stream's own thread; and what can be asked of a device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <set>

#include "counts.h"
#include "state.h"

namespace terse::fake {
namespace {

constexpr size_t kMaxParameters = 4096, kMaxThreads = 1024, kMaxBlocksAtOnce = 8;

struct Kernels {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<const Kernel>> all;
};

Kernels& kernels() {
  static Kernels& k = *new Kernels;
  return k;
}

std::shared_ptr<const Kernel> find_kernel(const void* function) {
  Kernels& k = kernels();
  const std::lock_guard lock(k.mutex);
  const auto known = k.all.find(function);
  return known == k.all.end() ? nullptr : known->second;
}

struct Run {
  std::shared_ptr<const Kernel> kernel;
  std::vector<char> parameter;
  uint32_t blocks, threads;
  std::shared_ptr<TrafficCount> traffic;  // of the thread that launched it
};

void run(void* context) {
  const std::unique_ptr<Run> r(static_cast<Run*>(context));
  try {
    r->traffic->add(r->kernel->run(r->parameter.data(), r->blocks, r->threads));
  } catch (const std::exception& e) {
    report_fault(e.what());
  }
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                   cudaStream_t stream) {
  const auto kernel = find_kernel(function);
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  if (arguments == nullptr) return cudaErrorInvalidValue;
  if (grid.x == 0 || grid.x > 0x7fffffff || grid.y != 1 || grid.z != 1)
    return cudaErrorInvalidConfiguration;
  if (block.x == 0 || block.x > kMaxThreads || block.y != 1 || block.z != 1)
    return cudaErrorInvalidConfiguration;
  if (shared != 0) return cudaErrorInvalidConfiguration;
  if (const cudaError_t wrong = check_stream_context(stream)) return wrong;
  std::vector<char> parameters;
  for (size_t i = 0; i < kernel->parameter_bytes.size(); ++i) {
    if (arguments[i] == nullptr) return cudaErrorInvalidValue;
    const auto* const first = static_cast<const char*>(arguments[i]);
    parameters.insert(parameters.end(), first, first + kernel->parameter_bytes[i]);
  }
  if (parameters.size() > kMaxParameters) return cudaErrorInvalidValue;
  const Run run_it{kernel, parameters, grid.x, block.x, traffic_count()};
  return submit(stream, [run_it](cudaStream_t on) {
    return translate(host().LaunchHostFunc(on, run, new Run(run_it)));
  });
}

}  // namespace

void add_kernel(const void* function, Kernel kernel) {
  Kernels& k = kernels();
  const std::lock_guard lock(k.mutex);
  k.all[function] = std::make_shared<const Kernel>(std::move(kernel));
}

}  // namespace terse::fake

using namespace terse::fake;

extern "C" {

TERSE_FAKE cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared, cudaStream_t stream) {
  return call("cudaLaunchKernel",
              [&] { return launch(function, grid, block, arguments, shared, stream); });
}

// All thread blocks of a kernel run at once on this device, whether it is launched so or not.
TERSE_FAKE cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                           void** arguments) {
  return call("cudaLaunchKernelExC", [&] {
    if (config == nullptr) return cudaErrorInvalidValue;
    for (unsigned i = 0; i < config->numAttrs; ++i)
      if (config->attrs[i].id != cudaLaunchAttributeCooperative) return cudaErrorInvalidValue;
    if (config->gridDim.x > kMaxBlocksAtOnce) return cudaErrorCooperativeLaunchTooLarge;
    return launch(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                  config->stream);
  });
}

TERSE_FAKE cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return call("cudaFuncGetAttributes", [&] {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    if (find_kernel(function) == nullptr) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->maxThreadsPerBlock = kMaxThreads;
    return cudaSuccess;
  });
}

// A GPU with few multiprocessors, so that a thread block gets several tiles.
TERSE_FAKE cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return call("cudaDeviceGetAttribute", [&] {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
    switch (which) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = 9;
        return cudaSuccess;
      case cudaDevAttrComputeCapabilityMinor:
        *value = 0;
        return cudaSuccess;
      case cudaDevAttrMultiProcessorCount:
        *value = 2;
        return cudaSuccess;
      case cudaDevAttrCooperativeLaunch:
        *value = 1;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

TERSE_FAKE cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int device) {
  return call("cudaDeviceGetPCIBusId", [&] {
    if (id == nullptr || device < 0 || device >= kDevices) return cudaErrorInvalidValue;
    const bool is_one = std::getenv("FAKE_CUDA_ONE_GPU") != nullptr;  // for all ranks
    std::snprintf(id, static_cast<size_t>(bytes), "0000:%02x:00.0", is_one ? 0 : device);
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&] {
    const bool known = std::min(device, peer) >= 0 && std::max(device, peer) < kDevices;
    if (can == nullptr || !known) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call("cudaDeviceEnablePeerAccess", [&] {
    if (flags != 0) return cudaErrorInvalidValue;
    if (peer < 0 || peer >= kDevices || peer == current_device()) return cudaErrorInvalidDevice;
    static std::mutex mutex;
    static std::set<std::pair<int, int>> enabled;
    const std::lock_guard lock(mutex);
    return enabled.emplace(current_device(), peer).second ? cudaSuccess
                                                          : cudaErrorPeerAccessAlreadyEnabled;
  });
}

TERSE_FAKE const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define TERSE_NAME(name) \
  case name:             \
    return #name;
    TERSE_NAME(cudaSuccess)
    TERSE_NAME(cudaErrorInvalidValue)
    TERSE_NAME(cudaErrorMemoryAllocation)
    TERSE_NAME(cudaErrorInvalidConfiguration)
    TERSE_NAME(cudaErrorInvalidDeviceFunction)
    TERSE_NAME(cudaErrorNoDevice)
    TERSE_NAME(cudaErrorInvalidDevice)
    TERSE_NAME(cudaErrorNoKernelImageForDevice)
    TERSE_NAME(cudaErrorInsufficientDriver)
    TERSE_NAME(cudaErrorInvalidResourceHandle)
    TERSE_NAME(cudaErrorNotReady)
    TERSE_NAME(cudaErrorIllegalAddress)
    TERSE_NAME(cudaErrorLaunchFailure)
    TERSE_NAME(cudaErrorNotPermitted)
    TERSE_NAME(cudaErrorPeerAccessAlreadyEnabled)
    TERSE_NAME(cudaErrorCooperativeLaunchTooLarge)
    TERSE_NAME(cudaErrorStreamCaptureUnsupported)
    TERSE_NAME(cudaErrorStreamCaptureInvalidated)
    TERSE_NAME(cudaErrorStreamCaptureMerge)
    TERSE_NAME(cudaErrorStreamCaptureUnmatched)
    TERSE_NAME(cudaErrorStreamCaptureUnjoined)
    TERSE_NAME(cudaErrorStreamCaptureIsolation)
    TERSE_NAME(cudaErrorStreamCaptureImplicit)
    TERSE_NAME(cudaErrorStreamCaptureWrongThread)
    TERSE_NAME(cudaErrorCapturedEvent)
#undef TERSE_NAME
    default:
      return "cudaErrorUnknown";
  }
}

TERSE_FAKE const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

}  // extern "C"
