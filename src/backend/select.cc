#include "backend/select.h"

#include <dlfcn.h>

#include <atomic>
#include <string>

#include "backend/cuda_module.h"
#include "backend/host.h"
#include "base/error.h"
#include "base/first_made.h"
#include "base/log.h"

namespace terse {
namespace {

constexpr const char* kModule = "libterse_cuda.so";

// The folder of the library, or program, that this code is in; ends with a slash.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr)
    return "";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

MakeCudaBackend load_module(const std::string& wanted) {
  const std::string path = wanted.empty() ? own_folder() + kModule : wanted;
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr)
    fail(ncclSystemError,
         "the NCCL in use works on GPUs, and terse's CUDA module cannot be used: {}", dlerror());
  const auto make = reinterpret_cast<MakeCudaBackend>(dlsym(module, kMakeCudaBackend));
  if (make == nullptr) fail(ncclSystemError, "{} is not terse's CUDA module", path);
  log(LogLevel::kInfo, "using {}", path);
  return make;
}

MakeCudaBackend module(const std::string& path) {
  static constinit std::atomic<const MakeCudaBackend*> place{nullptr};
  return first_made(place, [&] { return load_module(path); });
}

bool module_loads(const std::string& path) {
  try {
    module(path);
    return true;
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}", e.message);
    return false;
  }
}

}  // namespace

bool has_backend(const NcclLibrary& library, const std::string& module_path) {
  if (library.on_host) return true;
  static constinit std::atomic<const bool*> place{nullptr};
  return first_made(place, [&] { return module_loads(module_path); });
}

Backend& backend_for(const NcclLibrary& library, ncclComm_t comm, const std::string& module_path) {
  if (library.on_host) {
    static Backend& host = *make_host_backend(library).release();  // for good, as the settings
    return host;
  }
  const MakeCudaBackend make = module(module_path);
  int device = 0;
  check(library, library.nccl.CommCuDevice(comm, &device), "ncclCommCuDevice");
  return *make(kCudaModuleVersion, device);
}

}  // namespace terse
