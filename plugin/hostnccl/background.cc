#include "background.h"

#include <atomic>
#include <cfenv>
#include <cstdlib>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>

#include "failure.h"
#include "flag.h"
#include "fork.h"

namespace hostnccl {
namespace {

struct Worker {
  std::shared_ptr<Flag> stop;
  std::atomic<bool> done{false};
  std::thread thread;
};

struct Workers {
  std::mutex mutex;
  std::list<Worker> list;
  std::atomic<bool> exiting{false};
};

Workers& workers() { return of_process<Workers>(); }

void stop_all() {
  Workers& all = workers();
  std::list<Worker> list;
  {
    std::lock_guard lock(all.mutex);
    all.exiting = true;
    list.swap(all.list);
  }
  for (Worker& worker : list) worker.stop->raise();
  for (Worker& worker : list) worker.thread.join();
}

void reap(std::list<Worker>& list) {
  std::erase_if(list, [](Worker& worker) {
    const bool done = worker.done;  // asked once: a thread that is not joined may not go
    if (done) worker.thread.join();
    return done;
  });
}

}  // namespace

void run_in_background(std::shared_ptr<Flag> stop, std::function<void()> work) {
  static const int registered = std::atexit(&stop_all);
  (void)registered;
  Workers& all = workers();
  std::lock_guard lock(all.mutex);
  if (all.exiting) fail(ncclInvalidUsage, "the process is exiting");
  reap(all.list);
  Worker& worker = all.list.emplace_back();
  worker.stop = std::move(stop);
  try {
    worker.thread = std::thread([&worker, work = std::move(work)]() mutable {
      // Sets the default mode. The mode of the thread that began this one may differ between ranks,
      // which would sum unalike: flushing subnormal numbers (PyTorch's set_flush_denormal), another
      // rounding, traps.
      std::fesetenv(FE_DFL_ENV);
      work();
      work = nullptr;  // what it owns goes before the thread counts as done
      worker.done = true;
    });
  } catch (const std::system_error& error) {
    all.list.pop_back();
    fail(ncclSystemError, "cannot start a thread: {}", error.what());
  }
}

bool is_exiting() { return workers().exiting; }

}  // namespace hostnccl
