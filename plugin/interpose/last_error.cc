#include "interpose/last_error.h"

#include <mutex>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/thread_local.h"
#include "interpose/next.h"

namespace terse::interpose {
namespace {

struct Failure {
  std::string message;
  std::string nccls;  // NCCL's message at that time
};

struct LastFailure {
  std::mutex mutex;
  std::optional<Failure> ours;
};

// Never destroyed: calls may come from other threads while the program exits.
LastFailure& last_failure() {
  static LastFailure& last = *new LastFailure;
  return last;
}

// Valid until the thread asks again.
struct LastMessage {
  std::string message;
};

std::string text(const char* message) { return message != nullptr ? message : ""; }

// Message of NCCL itself; "" if there is no NCCL.
std::string message_of_nccl(ncclComm_t comm) {
  try {
    const auto ask = next().GetLastError;  // null before NCCL 2.13
    return ask != nullptr ? text(ask(comm)) : "";
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

void we_failed_last() noexcept {
  try {
    Failure failure{last_error(), message_of_nccl(nullptr)};
    const std::lock_guard lock(last_failure().mutex);
    last_failure().ours = std::move(failure);
  } catch (const std::exception&) {
    // no memory even for the message
  }
}

void nccl_failed_last() noexcept {
  const std::lock_guard lock(last_failure().mutex);
  last_failure().ours.reset();
}

}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;

extern "C" __attribute__((visibility("default"))) const char* ncclGetLastError(ncclComm_t comm) {
  try {
    std::string& message = ThreadLocal<LastMessage>::get().message;
    message = message_of_nccl(comm);
    const std::lock_guard lock(last_failure().mutex);
    const std::optional<Failure>& ours = last_failure().ours;
    // A later message of NCCL's may be a consequence, as another rank hears of our failure and
    // gives up.
    if (ours)
      message = ours->nccls == message ? ours->message
                                       : fmt::format("{}; before: {}", message, ours->message);
    return message.c_str();
  } catch (const std::exception&) {
    return "";
  }
}
