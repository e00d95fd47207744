// The log, in NCCL's manner: "host:pid:tid [rank] NCCL INFO text", on stderr or NCCL_DEBUG_FILE.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "env.h"

namespace hostnccl {

inline constexpr int kNoRank = -1;

bool log_is_on(LogLevel level);
void write_log(LogLevel level, int rank, const std::string& text);
void reset_log();  // reads the environment again

template <class... Args>
void log(LogLevel level, int rank, fmt::format_string<Args...> format, Args&&... args) {
  if (log_is_on(level)) write_log(level, rank, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hostnccl
