// The CUDA backend of one device. It is the module libterse_cuda.so, loaded when a program's NCCL
// works on GPUs; everything else of terse is free of CUDA.
#pragma once

#include "backend/backend.h"

namespace terse {

// Raised whenever Backend or what it passes changes: module and library must be of one build.
constexpr int kCudaModuleVersion = 7;

// The module's only symbol. The backend lives as long as the process. Throws Error: no such device,
// a driver that is too old, a device for which there is no code, a module of another version.
extern "C" Backend* terse_cuda_backend(int version, int device);
using MakeCudaBackend = decltype(&terse_cuda_backend);
constexpr const char* kMakeCudaBackend = "terse_cuda_backend";

}  // namespace terse
