// The library's only way to print: lines on standard error, at the level that TERSE_LOG sets, in
// NCCL's form: HOST:PROCESS:THREAD terse LEVEL TEXT.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace terse {

enum class LogLevel { kOff, kError, kWarn, kInfo, kTrace };

LogLevel log_level() noexcept;
void set_log_level(LogLevel level) noexcept;
void write_log(LogLevel level, std::string_view line) noexcept;

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (level <= log_level()) write_log(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace terse
