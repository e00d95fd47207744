#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <new>
#include <string>

#include "base/text.h"

namespace terse {
namespace {

std::atomic<LogLevel> g_level{LogLevel::kWarn};

// Up to its first dot. Never destroyed: lines may come from other threads while the program exits.
const std::string& host_name() {
  static const std::string& name = *new std::string([] {
    char full[256] = {};
    if (gethostname(full, sizeof full - 1) != 0) return std::string("unknown");
    const std::string text = full;
    return text.substr(0, text.find('.'));
  }());
  return name;
}

void print(const char* label, std::optional<int> rank, std::string_view line) noexcept try {
  const std::string text = printable(line);
  char of_rank[16] = "";
  if (rank) std::snprintf(of_rank, sizeof of_rank, "[%d] ", *rank);
  std::fprintf(stderr, "%s:%d:%d %sterse %s %s\n", host_name().c_str(), getpid(), gettid(), of_rank,
               label, text.c_str());
} catch (const std::bad_alloc&) {
  // no memory for the line
}

}  // namespace

LogLevel log_level() noexcept { return g_level.load(std::memory_order_relaxed); }

void set_log_level(LogLevel level) noexcept { g_level.store(level, std::memory_order_relaxed); }

void write_log(LogLevel level, std::optional<int> rank, std::string_view line) noexcept {
  static constexpr const char* kNames[] = {"", "ERROR", "WARN", "INFO", "TRACE"};
  print(kNames[static_cast<int>(level)], rank, line);
}

void note(std::optional<int> rank, std::string_view line) noexcept {
  if (log_level() >= LogLevel::kWarn) print("NOTE", rank, line);
}

}  // namespace terse
