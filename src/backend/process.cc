#include "backend/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <sstream>

namespace terse {

Process::Process(pid_t id) : id_(id) {
  if (const std::optional<State> now = state()) begin_ = now->begin;
}

bool Process::lives() const {
  const std::optional<State> now = state();
  if (!now) return true;
  const bool is_another = !begin_.empty() && now->begin != begin_;
  return !now->has_ended && !is_another;
}

// A process whose first thread has ended lives as long as another one does.
std::optional<Process::State> Process::state() const {
  const int file = open(fmt::format("/proc/{}/stat", id_).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? std::optional(State{true, {}}) : std::nullopt;
  char text[1024];
  const ssize_t bytes = read(file, text, sizeof text);
  const bool is_gone = bytes < 0 && errno == ESRCH;
  close(file);
  if (is_gone) return State{true, {}};
  const std::string_view line(text, bytes > 0 ? static_cast<size_t>(bytes) : 0);
  const size_t name_end = line.rfind(')');  // of its program, with any characters
  if (name_end == line.npos) return {};
  constexpr int kLetter = 3, kThreads = 20, kBegin = 22;  // fields, from 1
  std::istringstream fields{std::string(line.substr(name_end + 1))};
  std::string field, letter, begin;
  long threads = 0;
  for (int at = kLetter; at <= kBegin && fields >> field; ++at) {
    if (at == kLetter) letter = field;
    if (at == kThreads) threads = std::atol(field.c_str());
    if (at == kBegin) begin = field;
  }
  if (begin.empty()) return {};
  return State{(letter == "Z" && threads <= 1) || letter == "X", begin};
}

}  // namespace terse
