#include "backend/process_watch.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "backend/shared_memory.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace terse {
namespace {

// The thread, and what it watches: descriptors that can be read when all threads of a process have
// ended.
class Watcher {
 public:
  // Never destroyed: the thread may look while the program exits.
  static Watcher& instance() {
    static Watcher& all = *new Watcher;
    return all;
  }

  void add(const ProcessWatch* watch, pid_t process, std::function<void()> ended) {
    File descriptor(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    if (descriptor.number() < 0 && errno == ESRCH) return ended();
    if (descriptor.number() < 0 || wake_.number() < 0) return;
    const std::lock_guard lock(mutex_);
    if (is_exiting_) return;
    watched_.try_emplace(watch, descriptor.release(), std::move(ended));
    start();
    wake();
  }
  void remove(const ProcessWatch* watch) {
    if (getpid() != process_) return;  // a forked child has no thread, and perhaps its lock
    const std::lock_guard lock(mutex_);
    if (watched_.erase(watch) != 0) wake();
  }

 private:
  struct Watched {
    Watched(int file, std::function<void()> function)
        : descriptor(file), ended(std::move(function)) {}
    File descriptor;
    std::function<void()> ended;
  };

  void wake() { eventfd_write(wake_.number(), 1); }

  // Calls nothing any more: what the functions write may go with the program's libraries.
  void end_at_exit() {
    const std::lock_guard lock(mutex_);
    is_exiting_ = true;
    watched_.clear();
  }

  // Starts the thread, which gets no signal that the program handles.
  void start() {
    if (is_started_) return;
    static const int registered = std::atexit([] { instance().end_at_exit(); });
    (void)registered;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { run(); }).detach();
      is_started_ = true;
    } catch (const std::exception&) {
      // The next watch starts it.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  [[noreturn]] void run() noexcept {
    pthread_setname_np(pthread_self(), "terse-watch");
    for (;;) try {
        wait();
        const std::lock_guard lock(mutex_);
        std::erase_if(watched_, [](const auto& entry) {
          const Watched& watched = entry.second;
          pollfd one{watched.descriptor.number(), POLLIN, 0};
          if (poll(&one, 1, 0) != 1) return false;
          if ((one.revents & POLLIN) != 0) watched.ended();
          return true;  // also a descriptor that the program has closed
        });
      } catch (const std::exception&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));  // without memory
      }
  }

  // Waits for the end of a process, or for another list of them.
  void wait() {
    std::vector<pollfd> all{{wake_.number(), POLLIN, 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [watch, watched] : watched_)
        all.push_back({watched.descriptor.number(), POLLIN, 0});
    }
    poll(all.data(), all.size(), -1);
    eventfd_t count = 0;
    if (all.front().revents != 0) eventfd_read(wake_.number(), &count);
  }

  const pid_t process_ = getpid();
  const File wake_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex_;
  std::map<const ProcessWatch*, Watched> watched_;
  bool is_started_ = false, is_exiting_ = false;
};

}  // namespace

uint64_t process_namespace() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

ProcessWatch::ProcessWatch(pid_t process, std::function<void()> ended) {
  Watcher::instance().add(this, process, std::move(ended));
}

ProcessWatch::~ProcessWatch() { Watcher::instance().remove(this); }

}  // namespace terse
