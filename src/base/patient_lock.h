// A lock for what runs while the program exits, when the thread that has the mutex may be no more.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

namespace terse {

// Owns nothing when the mutex was not to be had for so long. (Thread sanitizers do not know the
// waits of timed mutexes.)
inline std::unique_lock<std::mutex> patient_lock(
    std::mutex& mutex, std::chrono::milliseconds patience = std::chrono::milliseconds(200)) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.try_lock();
  }
  return lock;
}

}  // namespace terse
