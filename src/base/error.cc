#include "base/error.h"

#include <iterator>
#include <new>

#include "base/log.h"

namespace terse {
namespace {

thread_local std::string t_last_error;

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
      throw;
    } catch (const Error& e) {
      result = e.result;
      set_last_error(fmt::format("{}: {}", call, e.message));
    } catch (const std::bad_alloc&) {
      result = ncclSystemError;
      set_last_error(fmt::format("{}: out of memory", call));
    } catch (const std::exception& e) {
      set_last_error(fmt::format("{}: {}", call, e.what()));
    }
    log(LogLevel::kWarn, "{}", last_error());
  } catch (...) {
    set_last_error({});  // no memory even for the message
  }
  return result;
}

}  // namespace terse
