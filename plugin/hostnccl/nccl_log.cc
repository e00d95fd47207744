#include "nccl_log.h"

#include <nccl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "fork.h"

namespace hostnccl {
namespace {

class Sink {
 public:
  void reset() {
    std::lock_guard lock(mutex_);
    const LogSettings settings = read_log_settings();
    if (out_ != stderr) std::fclose(out_);
    out_ = settings.file.empty() ? stderr : std::fopen(settings.file.c_str(), "ae");
    if (out_ == nullptr) out_ = stderr;
    gethostname(host_, sizeof(host_) - 1);
    level_ = settings.level;
    if (settings.level >= LogLevel::kVersion) {
      put(fmt::format("NCCL version {}.{}.{}{}+hostnccl\n", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH,
                      NCCL_SUFFIX));
    }
  }

  LogLevel level() {
    std::call_once(set_up_, [this] { reset(); });
    return level_;
  }

  void write(const char* label, int rank, const std::string& text) {
    std::lock_guard lock(mutex_);
    const std::string who = rank == kNoRank ? "" : fmt::format("[{}] ", rank);
    put(fmt::format("{}:{}:{} {}NCCL {} {}\n", host_, getpid(), syscall(SYS_gettid), who, label,
                    text));
  }

 private:
  // Writes a line, or leaves it out if it cannot be written: no program ends for want of its log.
  void put(const std::string& line) {
    [[maybe_unused]] const size_t written = std::fwrite(line.data(), 1, line.size(), out_);
    std::fflush(out_);
  }

  std::once_flag set_up_;
  std::mutex mutex_;
  std::FILE* out_ = stderr;
  char host_[256] = "";
  std::atomic<LogLevel> level_{LogLevel::kNone};
};

Sink& the_sink() { return of_process<Sink>(); }

}  // namespace

bool log_is_on(LogLevel level) { return the_sink().level() >= level; }

void write_log(LogLevel level, int rank, const std::string& text) {
  const char* label = level <= LogLevel::kWarn   ? "WARN"
                      : level == LogLevel::kInfo ? "INFO"
                                                 : "TRACE";
  the_sink().write(label, rank, text);
}

void reset_log() { the_sink().reset(); }

}  // namespace hostnccl
