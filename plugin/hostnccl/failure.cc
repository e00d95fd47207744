#include "failure.h"

#include <cerrno>
#include <iterator>
#include <mutex>
#include <system_error>

#include "fork.h"

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
LastErrorText& Shared() { return OfProcess<LastErrorText>(); }

}  // namespace

void FailSystem(const std::string& text) {
  const int error = errno;
  Fail(ncclSystemError, "{}: {}", text, std::generic_category().message(error));
}

const char* ResultText(ncclResult_t code) {
  const auto index = static_cast<unsigned>(code);
  return index < std::size(kResultTexts) ? kResultTexts[index] : "unknown result code";
}

void SetLastError(const std::string& text) {
  LastErrorText& shared = Shared();
  std::lock_guard lock(shared.mutex);
  shared.text = text;
}

const char* LastError() {
  thread_local std::string copy;
  LastErrorText& shared = Shared();
  std::lock_guard lock(shared.mutex);
  copy = shared.text;
  return copy.c_str();
}

}  // namespace hostnccl
