// Failures: an NCCL result code and a text that names the cause.
//
// Inside the library a failure travels as an exception; api.cc turns it into a result code. Between
// threads it travels as a value (std::optional<Failure>: empty means success).
#pragma once

#include <fmt/format.h>
#include <nccl.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace hostnccl {

// A copy takes no memory.
class Failure : public std::exception {
 public:
  Failure(ncclResult_t code, std::string text)
      : code_(code), text_(std::make_shared<const std::string>(std::move(text))) {}
  ncclResult_t code() const { return code_; }
  const std::string& text() const { return *text_; }
  const char* what() const noexcept override { return text_->c_str(); }

 private:
  ncclResult_t code_;
  std::shared_ptr<const std::string> text_;
};

using Outcome = std::optional<Failure>;

template <class... Args>
[[noreturn]] void fail(ncclResult_t code, fmt::format_string<Args...> format, Args&&... args) {
  throw Failure(code, fmt::format(format, std::forward<Args>(args)...));
}

// "text: strerror(errno)"
[[noreturn]] void fail_system(const std::string& text);

inline void require(bool condition, ncclResult_t code, const char* text) {
  if (!condition) throw Failure(code, text);
}

const char* result_text(ncclResult_t code);

// The process-wide text behind ncclGetLastError.
void set_last_error(const std::string& text);
const char* last_error();  // a copy owned by the calling thread

}  // namespace hostnccl
