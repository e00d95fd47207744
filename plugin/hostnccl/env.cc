#include "env.h"

#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace hostnccl {
namespace {

std::string Get(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

LogLevel ParseLevel(const std::string& text) {
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

void Replace(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at; (at = text.find(from)) != std::string::npos;) text.replace(at, from.size(), to);
}

}  // namespace

LogSettings ReadLogSettings() {
  LogSettings settings{ParseLevel(Get("NCCL_DEBUG")), Get("NCCL_DEBUG_FILE")};
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  Replace(settings.file, "%h", host);
  Replace(settings.file, "%p", std::to_string(getpid()));
  return settings;
}

Settings ReadSettings() {
  Settings settings;
  const double seconds = std::atof(Get("HOSTNCCL_TIMEOUT").c_str());
  if (seconds > 0) {  // at most a day: beyond it only the arithmetic would overflow
    settings.timeout = std::chrono::milliseconds(
        std::max(1L, static_cast<long>(std::min(seconds, 86400.0) * 1000)));
  }
  settings.interface = Get("NCCL_SOCKET_IFNAME");
  settings.comm_id = Get("NCCL_COMM_ID");
  const std::string blocking = Get("NCCL_COMM_BLOCKING");
  if (!blocking.empty()) settings.blocking = blocking != "0";
  return settings;
}

bool UserHasSetUcx(const char* name) {
  return std::getenv((std::string("UCX_") + name).c_str()) != nullptr;
}

}  // namespace hostnccl
