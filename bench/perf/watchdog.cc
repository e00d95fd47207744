#include "watchdog.h"

#include <utility>

namespace terse::perf {

Watchdog::Watchdog(int seconds, std::function<void(const std::string&)> on_timeout)
    : limit_(seconds), on_timeout_(std::move(on_timeout)) {
  if (seconds > 0) watcher_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void Watchdog::kick(const std::string& what) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = std::chrono::steady_clock::now();
  what_ = what;
}

void Watchdog::watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!done_) {
    const auto deadline = last_ + limit_;
    if (std::chrono::steady_clock::now() >= deadline) {
      const std::string what = what_;
      lock.unlock();
      on_timeout_(what);
      return;
    }
    changed_.wait_until(lock, deadline);
  }
}

}  // namespace terse::perf
