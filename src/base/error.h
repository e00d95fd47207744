// One error route: inside the library failures are thrown as Error; the C boundary translates them
// once (guard) and keeps the message for terseGetLastError().
#pragma once

#include <fmt/format.h>
#include <nccl.h>

#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace terse {

struct Error : std::exception {
  // Makes any message printable, and cuts it, whatever it quotes.
  Error(ncclResult_t result, std::string_view message);
  const char* what() const noexcept override { return message.c_str(); }

  ncclResult_t result;
  std::string message;
  std::optional<int> rank;     // in the communicator that it is about
  const char* call = nullptr;  // the C function that has failed, where another one reports it
  bool said = false;           // logged, and named after its function: it is thrown once more
};

template <class... Args>
[[noreturn]] void fail(ncclResult_t result, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(result, fmt::format(format, std::forward<Args>(args)...));
}

// The result code's name, as in nccl.h.
const char* result_name(ncclResult_t result);

// Returns this thread's last failure.
const char* last_error() noexcept;
void set_last_error(std::string message) noexcept;

// Turns the exception in flight into a result code; `call` begins the message.
ncclResult_t translate_exception(const char* call) noexcept;

// Runs `body`, which reports failure by throwing, for the C function named `call`.
template <class Body>
ncclResult_t guard(const char* call, Body&& body) noexcept {
  try {
    body();
    return ncclSuccess;
  } catch (...) {
    return translate_exception(call);
  }
}

}  // namespace terse
