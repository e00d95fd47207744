// What a call to NCCL returned, as torch's errors.
#pragma once

#include <nccl.h>

#include <exception>
#include <string>

namespace torch_hostnccl {

// The text of a failure, with what the library has to say about it.
std::string describe(ncclResult_t result, const char* call);

// Throws c10::DistBackendError unless the call succeeded.
void check(ncclResult_t result, const char* call);

[[noreturn]] void throw_backend_error(const std::string& text);
std::exception_ptr backend_error(const std::string& text);

}  // namespace torch_hostnccl
