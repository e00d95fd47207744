// Backend of a communicator: the host's for hostnccl, else that of the communicator's GPU, from the
// module libterse_cuda.so beside the library that this code is in, or at the path that is given.
// The module is loaded once, by the first call's.
#pragma once

#include <string>

#include "backend/backend.h"
#include "nccl/table.h"

namespace terse {

// Returns true if there is a backend at all: if the library works on GPUs, a module that can be
// loaded. If not, says so at level info, once.
bool has_backend(const NcclLibrary& library, const std::string& module_path);

// Each is made once and lives as long as the process. Throws Error(ncclSystemError) when there is
// no module, or when it cannot serve the GPU.
Backend& backend_for(const NcclLibrary& library, ncclComm_t comm, const std::string& module_path);

}  // namespace terse
