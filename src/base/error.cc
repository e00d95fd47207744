#include "base/error.h"

#include <iterator>
#include <new>

#include "base/log.h"

namespace terse {
namespace {

thread_local std::string t_last_error;

// What a group's call has thrown its end throws again: that is one failure, and said once.
void say(Error& e, const char* call) {
  if (e.said) return;
  e.message.insert(0, fmt::format("{}: ", e.call != nullptr ? e.call : call));
  log_of(e.rank, LogLevel::kError, "{}", e.message);
  e.said = true;
}

}  // namespace

const char* result_name(ncclResult_t result) {
  static constexpr const char* kNames[] = {
      "ncclSuccess",         "ncclUnhandledCudaError", "ncclSystemError", "ncclInternalError",
      "ncclInvalidArgument", "ncclInvalidUsage",       "ncclRemoteError", "ncclInProgress"};
  const auto index = static_cast<size_t>(result);
  return index < std::size(kNames) ? kNames[index] : "an unknown result";
}

const char* last_error() noexcept { return t_last_error.c_str(); }

void set_last_error(std::string message) noexcept { t_last_error = std::move(message); }

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
