// The log, in NCCL's manner: "host:pid:tid [rank] NCCL INFO text", on stderr or NCCL_DEBUG_FILE.
#ifndef HOSTNCCL_LOG_H_
#define HOSTNCCL_LOG_H_

#include <fmt/format.h>

#include <string>
#include <utility>

#include "env.h"

namespace hostnccl {

inline constexpr int kNoRank = -1;

bool LogIsOn(LogLevel level);
void WriteLog(LogLevel level, int rank, const std::string& text);
void ResetLog();  // reads the environment again

template <class... Args>
void Log(LogLevel level, int rank, fmt::format_string<Args...> format, Args&&... args) {
  if (LogIsOn(level)) WriteLog(level, rank, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace hostnccl

#endif  // HOSTNCCL_LOG_H_
