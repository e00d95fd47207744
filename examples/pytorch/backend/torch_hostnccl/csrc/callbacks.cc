#include "callbacks.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

namespace torch_hostnccl {
namespace {

thread_local bool t_in_callback = false;

// As many threads as callbacks that run at the same time; they stay.
class Pool {
 public:
  void run(std::function<void()> callback) {
    std::lock_guard lock(mutex_);
    ++begun_;
    waiting_.push_back(std::move(callback));
    if (waiting_.size() > idle_) {
      std::thread([this] { serve(); }).detach();
    } else {
      changed_.notify_one();
    }
  }

  // Whether all are over, and what they held is gone, within that time.
  bool wait(std::chrono::duration<double> limit) {
    std::unique_lock lock(mutex_);
    return all_over_.wait_for(lock, limit, [this] { return begun_ == 0; });
  }

 private:
  void serve() {
    t_in_callback = true;
    std::unique_lock lock(mutex_);
    for (;;) {
      ++idle_;
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      --idle_;
      auto callback = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      callback();
      callback = nullptr;
      lock.lock();
      if (--begun_ == 0) all_over_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, all_over_;
  std::deque<std::function<void()>> waiting_;
  size_t idle_ = 0, begun_ = 0;
};

Pool& pool() {
  static Pool* const pool = new Pool;  // for ever: its threads outlive main
  return *pool;
}

}  // namespace

void run_callback(std::function<void()> callback) { pool().run(std::move(callback)); }

bool wait_for_callbacks(double seconds) {
  return pool().wait(std::chrono::duration<double>(seconds));
}

bool in_callback() { return t_in_callback; }

bool futures_in_order() {
  static const bool in_order = [] {
    const char* value = std::getenv(kInOrder);
    return value != nullptr && std::string_view(value) == "1";
  }();
  return in_order;
}

}  // namespace torch_hostnccl
