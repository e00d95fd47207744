#include "failure.h"

#include <cerrno>
#include <iterator>
#include <mutex>
#include <system_error>

#include "fork.h"
#include "of_thread.h"

namespace hostnccl {
namespace {

constexpr const char* kResultTexts[] = {
    "no error",
    "unhandled cuda error",
    "unhandled system error",
    "internal error",
    "invalid argument",
    "invalid usage",
    "remote process exited or there was a network error",
    "NCCL operation in progress",
};
static_assert(std::size(kResultTexts) == ncclNumResults);

struct LastErrorText {
  std::mutex mutex;
  std::string text;
};
// Valid until the thread asks again.
struct LastErrorCopy {
  std::string text;
};

LastErrorText& last_error_text() { return of_process<LastErrorText>(); }

}  // namespace

void fail_system(const std::string& text) {
  const int error = errno;
  fail(ncclSystemError, "{}: {}", text, std::generic_category().message(error));
}

const char* result_text(ncclResult_t code) {
  const auto index = static_cast<unsigned>(code);
  return index < std::size(kResultTexts) ? kResultTexts[index] : "unknown result code";
}

void set_last_error(const std::string& text) {
  LastErrorText& shared = last_error_text();
  std::lock_guard lock(shared.mutex);
  shared.text = text;
}

const char* last_error() {
  std::string& copy = of_thread<LastErrorCopy>().text;
  LastErrorText& shared = last_error_text();
  std::lock_guard lock(shared.mutex);
  copy = shared.text;
  return copy.c_str();
}

}  // namespace hostnccl
