#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace terse {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarn};

}  // namespace

LogLevel log_level() noexcept { return g_level.load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) noexcept { g_level.store(level, std::memory_order_relaxed); }

void write_log(LogLevel level, std::string_view line) noexcept {
  static constexpr const char* kNames[] = {"", "warning", "info", "trace"};
  std::fprintf(stderr, "terse[%d] %s: %.*s\n", getpid(), kNames[static_cast<int>(level)],
               static_cast<int>(line.size()), line.data());
}

}  // namespace terse
