// Ends a process that makes no progress: the last resort against a hang.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace terse::perf {

class Watchdog {
 public:
  // When `seconds` pass between two calls of kick, on_timeout(what the last one named) is called,
  // once, on the watching thread. 0 seconds: never.
  Watchdog(int seconds, std::function<void(const std::string&)> on_timeout);
  ~Watchdog();

  void kick(const std::string& what);

 private:
  void watch();

  const std::chrono::seconds limit_;
  std::function<void(const std::string&)> on_timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
  std::string what_ = "starting";
  bool done_ = false;
  std::thread watcher_;
};

}  // namespace terse::perf
