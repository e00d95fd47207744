// The library's only way to print: lines on standard error, at the level that TERSE_LOG sets, in
// NCCL's form: HOST:PROCESS:THREAD [RANK] terse LEVEL TEXT. The rank is that of the communicator
// that the line is about; without one there is none.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace terse {

enum class LogLevel { kOff, kError, kWarn, kInfo, kTrace };

LogLevel log_level() noexcept;
void set_log_level(LogLevel level) noexcept;
void write_log(LogLevel level, std::optional<int> rank, std::string_view line) noexcept;

// Prints what a user wants to know once, without asking for more, where warnings are printed.
void note(std::optional<int> rank, std::string_view line) noexcept;

template <class... Args>
void log_of(std::optional<int> rank, LogLevel level, fmt::format_string<Args...> format,
            Args&&... args) {
  if (level <= log_level())
    write_log(level, rank, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  log_of({}, level, format, std::forward<Args>(args)...);
}

}  // namespace terse
