// The result codes of NCCL and libterse as exceptions.
#pragma once

#include <nccl.h>

#include <stdexcept>
#include <string>

#include "terse_api.h"

namespace terse::perf {

// Throws std::runtime_error with NCCL's own explanation unless the result is success.
inline void check_nccl(ncclResult_t result, const char* call) {
  if (result == ncclSuccess) return;
  const char* detail = ncclGetLastError(nullptr);
  throw std::runtime_error(std::string(call) + " failed: " + ncclGetErrorString(result) +
                           (detail != nullptr && *detail != '\0' ? " / " : "") +
                           (detail != nullptr ? detail : ""));
}

// The same for libterse.
inline void check_terse(const TerseApi& api, ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(api.get_last_error());
}

}  // namespace terse::perf
