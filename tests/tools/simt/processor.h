// Runs one block at a time: draws which thread goes on, lets threads meet, finds out when none can.
// In a machine (machine.h), or beside kernels of other OS threads, it takes turns with other
// blocks, and its threads may wait for flags.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "executor.h"
#include "random.h"
#include "shared_memory.h"
#include "site.h"
#include "thread.h"
#include "warp.h"
#include "window_memory.h"

namespace terse::simt::internal {

// Throws std::invalid_argument if no GPU could do it.
void require_possible(const Launch& launch);

// A block's place in a machine, or among the blocks of a kernel that has none.
struct Placement {
  WindowMemory* windows = nullptr;  // null: there is no machine
  uint32_t rank = 0, block = 0;
  size_t threads = 0;  // of a block, without a machine
  bool has_flags = windows != nullptr;

  size_t first_thread() const {
    return windows == nullptr ? block * threads : windows->numbers().of_block(rank, block);
  }
};

class Processor {
 public:
  using Body = std::function<void(void* shared)>;

  // One for each OS thread at a time, but in a machine.
  Processor(const Launch& launch, size_t shared_bytes, size_t shared_alignment, const Body& body,
            const Placement& placement = {});
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  void run_block(uint32_t index);

  // A block's turns, one after another.
  void start_block(uint32_t index);
  bool can_go_on() const { return !ready_.empty(); }
  void go_on();  // a thread, until it waits, or others go first
  bool has_ended() const { return exited_ == threads_.size(); }
  bool has_failed() const { return failure_ != nullptr; }
  void wake();  // who waits for a flag
  // Unwinds the threads that are in the middle of something.
  void cancel();
  [[noreturn]] void report_failure() const;
  std::string waits() const;  // who is at what

  // The rest is for the running thread.
  const Launch& launch() const { return launch_; }
  uint32_t block_index() const { return block_; }
  uint32_t thread_index() const { return running_->index; }

  // Whether it makes this mistake here.
  bool makes(Mistake mistake, Site site) const {
    return launch_.planter != nullptr && (*launch_.planter)({mistake, site}, running_->index);
  }

  // Before an access to memory: others may go first.
  void step(Site site) {
    if (--until_switch_ == 0) [[unlikely]]
      switch_thread(site);
  }
  void shared_read(const void* from, size_t bytes, Site site) {
    step(site);
    shared_.read(from, bytes, running_->index, site);
  }
  void shared_write(const void* to, size_t bytes, Site site) {
    step(site);
    shared_.write(to, bytes, running_->index, site);
  }
  void shared_add(const void* to, size_t bytes, Site site) {
    step(site);
    shared_.add(to, bytes, running_->index, site);
  }

  // Before an access to global memory, of which others may look at windows.
  void touch(Operation operation, const void* at, size_t bytes, Site site) {
    if (place_.windows != nullptr) [[unlikely]]
      place_.windows->touch(operation, at, bytes, number(), site);
  }
  void release(void* flag, size_t bytes, uint64_t value, Site site, bool orders = true);
  uint64_t acquire(const void* flag, size_t bytes, Site site);
  uint64_t relaxed_load(const void* flag, size_t bytes, Site site);
  void pause(Site site);

  // What the lane gets from the warp's collective.
  uint32_t meet_warp(Activity what, uint32_t value, uint32_t source, Site site);
  void meet_block(Site site);

  [[noreturn]] void fail(Site site, const std::string& what) const;

 private:
  struct Cancelled {};  // thrown through the bodies of threads that cannot go on

  size_t number() const { return place_.first_thread() + running_->index; }
  // Null: flags are the machine's words themselves, which kernels of other OS threads look at, too.
  WindowMemory* windows(Site site) const;
  void draw_habits();
  void execute(Thread& thread);
  Thread* next();
  void switch_thread(Site site);
  void suspend();
  void release(std::span<Thread> threads);
  void count_steps(uint64_t steps, Site site);
  std::exception_ptr stuck() const;

  const Launch launch_;
  const Body& body_;
  const Placement place_;
  SharedMemory shared_;
  Random random_;
  uint32_t block_ = 0;
  uint64_t steps_ = 0;

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Thread*> ready_, pausing_;
  Thread* running_ = nullptr;
  uint32_t at_barrier_ = 0;
  uint32_t exited_ = 0;

  // The block's habits. Of `contestants_` ready threads, the one of the highest rank goes on.
  uint32_t contestants_ = 1;
  std::vector<uint32_t> rank_;
  uint32_t switch_interval_ = 1;  // accesses to memory between two switches, on average
  uint32_t until_switch_ = 1;

  std::exception_ptr failure_;
  uint32_t failed_thread_ = 0;
  bool cancelling_ = false;
};

inline constinit thread_local Processor* current_processor = nullptr;

// That of the kernel which this OS thread runs.
inline Processor& processor() { return *current_processor; }

}  // namespace terse::simt::internal
