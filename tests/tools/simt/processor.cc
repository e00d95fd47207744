#include "processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "fault.h"

namespace terse::simt::internal {

void require_possible(const Launch& launch) {
  if (launch.blocks == 0 || launch.threads == 0 || launch.threads > 1024)
    throw std::invalid_argument("a launch needs blocks of 1 to 1024 threads");
}

Processor::Processor(const Launch& launch, size_t shared_bytes, size_t shared_alignment,
                     const Body& body, const Placement& placement)
    : launch_(launch),
      body_(body),
      place_(placement),
      shared_(shared_bytes, shared_alignment, (launch.threads + kLanes - 1) / kLanes),
      random_(launch.seed),
      threads_(launch.threads),
      warps_((launch.threads + kLanes - 1) / kLanes),
      rank_(launch.threads) {
  if (current_processor != nullptr) throw std::logic_error("a kernel cannot launch another");
  for (uint32_t i = 0; i < launch.threads; ++i) {
    threads_[i].index = i;
    threads_[i].fiber = &pooled_fiber(place_.first_thread() + i);
  }
}

void Processor::run_block(uint32_t index) {
  start_block(index);
  while (can_go_on() && failure_ == nullptr) go_on();
  if (failure_ == nullptr && !has_ended()) failure_ = stuck();
  if (failure_ != nullptr) {
    cancel();
    report_failure();
  }
}

namespace {

// While it lives, kernel source runs on the processor.
class Turn {
 public:
  explicit Turn(Processor* processor) { current_processor = processor; }
  ~Turn() { current_processor = nullptr; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
};

}  // namespace

void Processor::go_on() {
  const Turn turn(this);
  running_ = next();
  running_->fiber->resume();
}

void Processor::start_block(uint32_t index) {
  block_ = index;
  steps_ = 0;
  at_barrier_ = 0;
  exited_ = 0;
  // A block does the same whichever ran before it.
  random_ = Random(Random(launch_.seed).next() + index);
  shared_.start_block(random_);
  draw_habits();
  std::fill(warps_.begin(), warps_.end(), Warp());
  for (Thread& thread : threads_) {
    thread.fiber->assign(
        [](void* argument) { processor().execute(*static_cast<Thread*>(argument)); }, &thread);
  }
  ready_.clear();
  pausing_.clear();
  release(std::span<Thread>(threads_));
}

// Different bugs show under different habits: when threads keep step, when some warps or some lanes
// run far ahead of others, when a thread is stopped between any two accesses, or hardly ever.
void Processor::draw_habits() {
  static constexpr uint32_t kContestants[] = {1, 1, 2, 8, 64};
  static constexpr uint32_t kIntervals[] = {2, 16, 64, 256, 1024, 4096};
  contestants_ = kContestants[random_.below(std::size(kContestants))];
  const bool by_warp = random_.below(2) == 0;
  for (size_t i = 0; i < rank_.size(); ++i)
    rank_[i] = by_warp && i % kLanes != 0 ? rank_[i - 1] : random_.below(UINT32_MAX);
  switch_interval_ = kIntervals[random_.below(std::size(kIntervals))];
  until_switch_ = 1 + random_.below(2 * switch_interval_);
}

void Processor::execute(Thread& thread) {
  if (cancelling_) return;  // before it began
  try {
    body_(shared_.data());
  } catch (const Cancelled&) {
  } catch (...) {
    if (failure_ == nullptr) {
      failure_ = std::current_exception();
      failed_thread_ = thread.index;
    }
  }
  thread.activity = Activity::kExited;
  ++exited_;
}

Thread* Processor::next() {
  const size_t count = ready_.size();
  if (count == 0) return nullptr;
  size_t best = random_.below(static_cast<uint32_t>(count));
  const size_t contestants = std::min<size_t>(contestants_, count);
  for (size_t i = 1, at = best; i < contestants; ++i) {
    at = at + 1 == count ? 0 : at + 1;
    if (rank_[ready_[at]->index] > rank_[ready_[best]->index]) best = at;
  }
  Thread* const thread = ready_[best];
  ready_[best] = ready_.back();
  ready_.pop_back();
  return thread;
}

void Processor::suspend() {
  if (!cancelling_) running_->fiber->suspend();
  if (cancelling_) throw Cancelled();
}

void Processor::switch_thread(Site site) {
  until_switch_ = 1 + random_.below(2 * switch_interval_);
  count_steps(until_switch_, site);
  ready_.push_back(running_);
  suspend();
}

void Processor::count_steps(uint64_t steps, Site site) {
  steps_ += steps;
  if (steps_ > launch_.max_steps)
    fail(site, fmt::format("the block has not ended after {} steps; now: {}", launch_.max_steps,
                           describe(threads_)));
}

void Processor::release(std::span<Thread> threads) {
  for (Thread& thread : threads) {
    thread.activity = Activity::kRunning;
    ready_.push_back(&thread);
  }
}

uint32_t Processor::meet_warp(Activity what, uint32_t value, uint32_t source, Site site) {
  Thread& me = *running_;
  const uint32_t first = me.warp() * kLanes;
  if (first + kLanes > threads_.size())
    fail(site, fmt::format("a collective in a warp of {} lanes", threads_.size() - first));
  if (source >= kLanes) fail(site, fmt::format("shuffle reads from lane {}", source));
  count_steps(1, site);
  me.wait_at(what, site);
  Warp& warp = warps_[me.warp()];
  if (warp.arrive(me.lane(), value, source)) {
    const std::span<Thread> lanes(&threads_[first], kLanes);
    if (!together(lanes))
      fail(site, "the lanes of a warp wait at different collectives: " + describe(lanes));
    what == Activity::kBallot ? warp.vote() : warp.exchange();
    if (what == Activity::kSyncWarp) {
      shared_.warp_synced(me.warp());
      if (place_.windows != nullptr) place_.windows->meet(place_.first_thread() + first, kLanes);
    }
    release(lanes);
  }
  suspend();
  return warp.got(me.lane());
}

void Processor::meet_block(Site site) {
  count_steps(1, site);
  running_->wait_at(Activity::kSyncBlock, site);
  if (++at_barrier_ == threads_.size()) {
    if (!together(threads_))
      fail(site, "the threads of a block wait at different barriers: " + describe(threads_));
    at_barrier_ = 0;
    shared_.block_synced();
    if (place_.windows != nullptr) place_.windows->meet(place_.first_thread(), threads_.size());
    release(std::span<Thread>(threads_));
  }
  suspend();
}

WindowMemory* Processor::windows(Site site) const {
  if (!place_.has_flags) fail(site, "flags are for the kernels of a machine");
  return place_.windows;
}

namespace {

// Stores and loads of a flag that other OS threads see.
void store_flag(void* flag, size_t bytes, uint64_t value) {
  if (bytes == sizeof(uint64_t))
    std::atomic_ref(*static_cast<uint64_t*>(flag)).store(value, std::memory_order_release);
  else
    std::atomic_ref(*static_cast<uint32_t*>(flag))
        .store(static_cast<uint32_t>(value), std::memory_order_release);
}

uint64_t load_flag(const void* flag, size_t bytes) {
  void* const word = const_cast<void*>(flag);
  if (bytes == sizeof(uint64_t))
    return std::atomic_ref(*static_cast<uint64_t*>(word)).load(std::memory_order_acquire);
  return std::atomic_ref(*static_cast<uint32_t*>(word)).load(std::memory_order_acquire);
}

}  // namespace

void Processor::release(void* flag, size_t bytes, uint64_t value, Site site, bool orders) {
  step(site);
  WindowMemory* const memory = windows(site);
  if (memory == nullptr) return store_flag(flag, bytes, value);
  orders = orders && !makes(Mistake::kNoRelease, site);
  memory->release(flag, bytes, value, number(), site, orders);
}

uint64_t Processor::acquire(const void* flag, size_t bytes, Site site) {
  step(site);
  running_->flag = flag;
  WindowMemory* const memory = windows(site);
  if (memory == nullptr) return load_flag(flag, bytes);
  if (!std::exchange(running_->looks, true)) running_->delivered = memory->delivered();
  return memory->acquire(flag, bytes, number(), site, !makes(Mistake::kNoAcquire, site));
}

uint64_t Processor::relaxed_load(const void* flag, size_t bytes, Site site) {
  step(site);
  WindowMemory* const memory = windows(site);
  if (memory == nullptr) return load_flag(flag, bytes);
  return memory->acquire(flag, bytes, number(), site, false);
}

void Processor::pause(Site site) {
  count_steps(1, site);
  Thread& me = *running_;
  me.looks = false;
  WindowMemory* const memory = windows(site);
  const bool may_have_changed = memory != nullptr && memory->delivered() != me.delivered;
  me.wait_at(Activity::kPause, site);
  (may_have_changed ? ready_ : pausing_).push_back(&me);
  suspend();
  me.activity = Activity::kRunning;
}

void Processor::wake() {
  ready_.insert(ready_.end(), pausing_.begin(), pausing_.end());
  pausing_.clear();
}

std::string Processor::waits() const {
  std::string text = fmt::format("rank {}, block {}: {}", place_.rank, block_, describe(threads_));
  const void* last = nullptr;
  for (const Thread* thread : pausing_)
    if (std::exchange(last, thread->flag) != thread->flag)
      text += fmt::format(", for {}", place_.windows->place(thread->flag));
  return text;
}

void Processor::fail(Site site, const std::string& what) const {
  const std::string rank =
      place_.windows == nullptr ? "" : fmt::format("of rank {}: ", place_.rank);
  throw Fault(block_, running_->index, fmt::format("{}{} ({})", rank, what, to_string(site)));
}

std::exception_ptr Processor::stuck() const {
  const auto waiting = std::find_if(threads_.begin(), threads_.end(), [](const Thread& thread) {
    return thread.activity != Activity::kExited;
  });
  return std::make_exception_ptr(Fault(block_, waiting->index, "deadlock: " + describe(threads_)));
}

void Processor::cancel() {
  const Turn turn(this);
  cancelling_ = true;
  for (Thread& thread : threads_) {
    running_ = &thread;
    if (thread.fiber->busy()) thread.fiber->resume();
  }
}

void Processor::report_failure() const {
  try {
    std::rethrow_exception(failure_);
  } catch (const Fault&) {
    throw;
  } catch (const std::exception& e) {
    std::throw_with_nested(Fault(block_, failed_thread_, fmt::format("threw: {}", e.what())));
  } catch (...) {
    std::throw_with_nested(Fault(block_, failed_thread_, "threw what is no std::exception"));
  }
}

}  // namespace terse::simt::internal
