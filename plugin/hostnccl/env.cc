#include "env.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace hostnccl {
namespace {

std::string get(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

LogLevel parse_level(const std::string& text) {
  constexpr std::array<std::pair<const char*, LogLevel>, 5> kLevels = {{
      {"VERSION", LogLevel::kVersion},
      {"WARN", LogLevel::kWarn},
      {"INFO", LogLevel::kInfo},
      {"ABORT", LogLevel::kInfo},
      {"TRACE", LogLevel::kTrace},
  }};
  for (const auto& [name, level] : kLevels) {
    if (strcasecmp(text.c_str(), name) == 0) return level;
  }
  return LogLevel::kNone;
}

// Whatever the locale; 0: none.
double parse_number(const std::string& text) {
  const size_t start = std::min(text.find_first_not_of(" \t\n+"), text.size());
  double number = 0;
  std::from_chars(text.data() + start, text.data() + text.size(), number);
  return number;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
}

}  // namespace

LogSettings read_log_settings() {
  LogSettings settings{parse_level(get("NCCL_DEBUG")), get("NCCL_DEBUG_FILE")};
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  replace(settings.file, "%h", host);
  replace(settings.file, "%p", std::to_string(getpid()));
  return settings;
}

Settings read_settings() {
  Settings settings;
  const double seconds = parse_number(get("HOSTNCCL_TIMEOUT"));
  if (seconds > 0) {  // at most a day: beyond it only the arithmetic would overflow
    settings.timeout = std::chrono::milliseconds(
        std::max(1L, static_cast<long>(std::min(seconds, 86400.0) * 1000)));
  }
  settings.interface = get("NCCL_SOCKET_IFNAME");
  settings.comm_id = get("NCCL_COMM_ID");
  const std::string blocking = get("NCCL_COMM_BLOCKING");
  if (!blocking.empty()) settings.blocking = blocking != "0";
  const double launches = parse_number(get("HOSTNCCL_LAUNCHES"));
  if (launches >= 1) settings.launches = static_cast<size_t>(std::min(launches, 1024.0));
  return settings;
}

bool user_has_set_ucx(const char* name) {
  return std::getenv((std::string("UCX_") + name).c_str()) != nullptr;
}

}  // namespace hostnccl
