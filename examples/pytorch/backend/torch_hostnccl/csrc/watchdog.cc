#include "watchdog.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace torch_hostnccl {
namespace {

class Watchdog {
 public:
  Watchdog() {
    std::thread([this] { main(); }).detach();
  }

  void add(const WorkPtr& work, Deadline deadline) {
    std::lock_guard lock(mutex_);
    works_.emplace(std::pair(deadline, work.get()), work);
    if (deadline < sleeps_until_) changed_.notify_one();
  }

  void remove(const HostWork* work, Deadline deadline) {
    WorkPtr gone;  // let go of without the lock
    std::lock_guard lock(mutex_);
    const auto found = works_.find({deadline, work});
    if (found == works_.end()) return;
    gone = std::move(found->second);
    works_.erase(found);
  }

 private:
  void main() {
    std::unique_lock lock(mutex_);
    for (;;) {
      sleeps_until_ = works_.empty() ? Deadline::max() : works_.begin()->first.first;
      if (works_.empty()) {
        changed_.wait(lock);
        continue;
      }
      if (std::chrono::steady_clock::now() < sleeps_until_) {
        changed_.wait_until(lock, Deadline(sleeps_until_));
        continue;
      }
      WorkPtr late = std::move(works_.begin()->second);
      works_.erase(works_.begin());
      lock.unlock();
      late->expire();
      late.reset();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<Deadline, const HostWork*>, WorkPtr> works_;
  Deadline sleeps_until_ = Deadline::max();
};

Watchdog& watchdog() {
  static Watchdog* const one = new Watchdog;  // for ever: its thread outlives main
  return *one;
}

}  // namespace

void watch(const WorkPtr& work, Deadline deadline) { watchdog().add(work, deadline); }
void forget(const HostWork* work, Deadline deadline) { watchdog().remove(work, deadline); }

}  // namespace torch_hostnccl
