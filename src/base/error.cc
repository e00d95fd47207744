#include "base/error.h"

#include <iterator>
#include <new>

#include "base/log.h"
#include "base/text.h"
#include "base/thread_local.h"

namespace terse {
namespace {

constexpr size_t kMaxOfAMessage = 4000;  // two policies that differ, whole

struct LastError {
  std::string message;
};
using ThreadsLastError = ThreadLocal<LastError>;

// Prints an error, once: a group's end throws again what one of its calls has thrown.
void say(Error& e, const char* call) {
  if (e.said) return;
  e.message.insert(0, fmt::format("{}: ", e.call != nullptr ? e.call : call));
  log_of(e.rank, LogLevel::kError, "{}", e.message);
  e.said = true;
}

}  // namespace

Error::Error(ncclResult_t result, std::string_view message)
    : result(result), message(printable(shortened_within(message, kMaxOfAMessage))) {}

const char* result_name(ncclResult_t result) {
  static constexpr const char* kNames[] = {
      "ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
      "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
      "ncclRemoteError",   "ncclInProgress",         "ncclTimeout"};
  const auto index = static_cast<size_t>(result);
  return index < std::size(kNames) ? kNames[index] : "an unknown result";
}

const char* last_error() noexcept {
  try {
    return ThreadsLastError::get().message.c_str();
  } catch (const std::bad_alloc&) {
    return "";
  }
}

void set_last_error(std::string message) noexcept {
  try {
    ThreadsLastError::get().message = std::move(message);
  } catch (const std::bad_alloc&) {
    // no memory for any
  }
}

ncclResult_t translate_exception(const char* call) noexcept {
  ncclResult_t result = ncclInternalError;
  try {
    try {
      try {
        throw;
      } catch (const Error&) {
        throw;
      } catch (const std::bad_alloc&) {
        fail(ncclSystemError, "out of memory");
      } catch (const std::exception& e) {
        fail(ncclInternalError, "{}", e.what());
      }
    } catch (Error& e) {
      result = e.result;
      say(e, call);
      set_last_error(e.message);
    }
  } catch (...) {
    set_last_error({});  // no memory even for the message
  }
  return result;
}

}  // namespace terse
