// What a program that nvcc built asks of the CUDA runtime beyond what the fake one
// (tests/tools/fakecuda) has, so that nccl-tests run without a GPU: preloaded with it. The
// program's kernels do not run; in their place memory from NCCL is full of random numbers.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <hostnccl.h>

#include <cstring>
#include <random>

#define TERSE_EXPORT extern "C" __attribute__((visibility("default")))

// ---- What the compiler puts in ----

TERSE_EXPORT void** __cudaRegisterFatBinary(void*) {
  static void* handle;
  return &handle;
}
TERSE_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}
TERSE_EXPORT void __cudaUnregisterFatBinary(void**) {}
TERSE_EXPORT void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*,
                                         uint3*, dim3*, dim3*, int*) {}
TERSE_EXPORT unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t) { return 0; }
TERSE_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                    void* stream) {
  *grid = *block = dim3();
  *shared = 0;
  *static_cast<cudaStream_t*>(stream) = nullptr;
  return cudaSuccess;
}
TERSE_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void*) {
  *kernel = nullptr;
  return cudaSuccess;
}
TERSE_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t,
                                            cudaStream_t) {
  return cudaSuccess;
}

// ---- Devices ----

TERSE_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = 8;
  return cudaSuccess;
}
TERSE_EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "host memory");
  properties->totalGlobalMem = size_t{16} << 30;
  properties->major = 9;
  return cudaSuccess;
}
TERSE_EXPORT cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{16} << 30;
  return cudaSuccess;
}
TERSE_EXPORT cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
TERSE_EXPORT cudaError_t cudaDeviceReset() { return cudaSuccess; }

// ---- Memory ----

TERSE_EXPORT cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}

TERSE_EXPORT ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  const auto next = reinterpret_cast<decltype(&ncclMemAlloc)>(dlsym(RTLD_NEXT, "ncclMemAlloc"));
  const ncclResult_t result = next(memory, bytes);
  if (result != ncclSuccess) return result;
  static thread_local std::mt19937 random(std::random_device{}());
  std::uniform_real_distribution<float> uniform(-1, 1);
  auto* const elements = static_cast<float*>(*memory);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) elements[i] = uniform(random);
  return ncclSuccess;
}
