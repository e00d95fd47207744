// Common part of all functions of the C interface: their symbols, and how a failure leaves the
// library.
#pragma once

#pragma GCC visibility push(default)
#include <hostnccl.h>
#include <nccl.h>
#include <nccl_config.h>
#pragma GCC visibility pop

#include <memory>
#include <new>

#include "comm.h"
#include "failure.h"
#include "handle_table.h"
#include "nccl_group.h"
#include "nccl_log.h"
#include "stream.h"

// Exports a function as NCCL does: its name is weak, so that a tool may put its own in front, and
// pnccl##name is the same function under a name that stays.
#define HOSTNCCL_EXPORT(name)                                                                    \
  extern "C"                                                                                     \
      [[gnu::visibility("default"), gnu::alias("nccl" #name)]] decltype(nccl##name) pnccl##name; \
  extern "C" [[gnu::weak]] decltype(nccl##name) nccl##name

namespace hostnccl {

using CommHandles = Handles<Comm, ncclComm_t>;
using StreamHandles = Handles<Stream, cudaStream_t>;
using EventHandles = Handles<Event, hostncclEvent_t>;

// Reports a failure to whoever asks for the last error, and to the log. Returns the failure with
// the function's name.
inline Failure tell(const char* function, const Failure& failure) {
  const std::string text = fmt::format("{}: {}", function, failure.text());
  set_last_error(text);
  log(LogLevel::kWarn, kNoRank, "{}", text);
  return {failure.code(), text};
}

inline ncclResult_t complain(const char* function, const Failure& failure) {
  return tell(function, failure).code();
}

// Reports a failure with which the thread's group fails, too, if there is one.
inline ncclResult_t fail_group(const char* function, const Failure& failure) {
  const Failure told = tell(function, failure);
  Group::current().note(told);
  return told.code();
}

using Report = ncclResult_t (*)(const char* function, const Failure& failure);

// Runs the body of an API function: `work` returns a result, or nothing for success.
template <Report report = &complain, class Work>
ncclResult_t guard(const char* function, Work&& work) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return ncclSuccess;
    } else {
      return work();
    }
  } catch (const Failure& failure) {
    return report(function, failure);
  } catch (const std::bad_alloc&) {
    return report(function, {ncclSystemError, "out of memory"});
  } catch (const std::exception& error) {
    return report(function, {ncclInternalError, error.what()});
  }
}

// Adds work to a group, as in NCCL: calls, and communicators to be made or finalised.
template <class Work>
ncclResult_t guard_in_group(const char* function, Work&& work) noexcept {
  return guard<&fail_group>(function, std::forward<Work>(work));
}

inline CommPtr find_comm(ncclComm_t comm) { return CommHandles::find(comm, "comm"); }

// Null for the null stream, and for CUDA's two other names of a default stream.
inline std::shared_ptr<Stream> find_stream(cudaStream_t stream) {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  return value <= 2 ? nullptr : StreamHandles::find(stream, "stream");
}

template <class T>
void require_pointer(const T* pointer, const char* name) {
  if (pointer == nullptr) fail(ncclInvalidArgument, "{} is NULL", name);
}

}  // namespace hostnccl
