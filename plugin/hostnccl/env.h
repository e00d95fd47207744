// Every environment variable that hostnccl looks at. No other file reads the environment.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace hostnccl {

enum class LogLevel { kNone, kVersion, kWarn, kInfo, kTrace };

struct LogSettings {
  LogLevel level = LogLevel::kNone;  // NCCL_DEBUG
  std::string file;                  // NCCL_DEBUG_FILE, %h and %p expanded; empty: stderr
};

struct Settings {
  std::chrono::milliseconds timeout{30000};  // HOSTNCCL_TIMEOUT, in seconds, fractions allowed
  std::string interface;                     // NCCL_SOCKET_IFNAME
  std::string comm_id;                       // NCCL_COMM_ID, host:port
  std::optional<bool> blocking;              // NCCL_COMM_BLOCKING
  size_t launches = 2;                       // HOSTNCCL_LAUNCHES: of messages, that may go together
};

LogSettings read_log_settings();

// Read anew for every communicator, so that a program may change its environment in between.
Settings read_settings();

// True when the user has set UCX_<name>: then our own choice for it steps back.
bool user_has_set_ucx(const char* name);

}  // namespace hostnccl
