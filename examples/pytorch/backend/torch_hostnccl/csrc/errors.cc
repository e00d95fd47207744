#include "errors.h"

#include <c10/util/Exception.h>

namespace torch_hostnccl {

std::string describe(ncclResult_t result, const char* call) {
  int version = 0;
  ncclGetVersion(&version);
  std::string text =
      c10::str("NCCL error in ", call, ": ", ncclGetErrorString(result), ", NCCL version ",
               version / 10000, ".", version / 100 % 100, ".", version % 100);
  if (const char* last = ncclGetLastError(nullptr); last != nullptr && *last != '\0') {
    text += c10::str("\nLast error:\n", last);
  }
  return text;
}

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess) throw_backend_error(describe(result, call));
}

void throw_backend_error(const std::string& text) { C10_THROW_ERROR(DistBackendError, text); }

std::exception_ptr backend_error(const std::string& text) {
  try {
    throw_backend_error(text);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace torch_hostnccl
