// The host backend: hostnccl's streams and events, ordinary memory, the host codec.
#pragma once

#include <memory>

#include "backend/backend.h"
#include "nccl/table.h"

namespace terse {

std::unique_ptr<Backend> make_host_backend(const NcclLibrary& library);

}  // namespace terse
