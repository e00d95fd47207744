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
                             ": it works on GPU memory, and these programs were built for hosts "
                             "without a GPU (hostnccl)");
  }
  return reinterpret_cast<Function*>(symbol);
}

#define TERSE_PERF_FIND(name) Find(#name, static_cast<decltype(&(name))>(nullptr))

std::string Describe(int) { return "host memory"; }

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

void Stamp(cudaStream_t stream, double* seconds) {
  static const auto launch = TERSE_PERF_FIND(hostncclLaunchHostFunc);
  const auto write_time = [](void* place) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    *static_cast<double*>(place) = std::chrono::duration<double>(now).count();
  };
  CheckNccl(launch(stream, write_time, seconds), "hostncclLaunchHostFunc");
}

#undef TERSE_PERF_FIND

}  // namespace

const Device& HostDevice() {
  static const Device device = {Describe, Allocate,     Release,       Copy,        Copy, Copy,
                                Zero,     CreateStream, DestroyStream, Synchronize, Stamp};
  return device;
}

}  // namespace terse::perf
