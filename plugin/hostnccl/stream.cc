#include "stream.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace hostnccl {

Stream::Stream() {
  try {
    thread_ = std::thread(&Stream::thread_main, this);
  } catch (const std::system_error& error) {
    fail(ncclSystemError, "cannot start a stream's thread: {}", error.what());
  }
}

Stream::~Stream() {
  {
    std::unique_lock lock(mutex_);
    reached_.wait(lock, [this] {
      awaited_ = pushed_;
      return finished_ == pushed_ && !pumping_;
    });
    ending_ = true;
    work_.notify_one();
  }
  thread_.join();
}

void Stream::run(std::function<void()> function) {
  Item item;
  item.start = std::move(function);
  item.on_thread = true;
  push(std::move(item));
}

void Stream::record(std::shared_ptr<Completion> point) {
  Item item;
  item.signals = std::move(point);
  push(std::move(item));
}

void Stream::wait_for(std::shared_ptr<Completion> point) {
  Item item;
  item.until = std::move(point);
  push(std::move(item));
}

void Stream::attach(std::function<void()> reached, std::shared_ptr<Completion> done) {
  Item item;
  item.start = std::move(reached);
  item.until = std::move(done);
  push(std::move(item));
}

void Stream::give_up(const Failure& failure) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = failure;
}

void Stream::synchronize() {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this, target = pushed_] {
    if (finished_ >= target) return true;
    awaited_ = std::min(awaited_, target);
    return false;
  });
  if (Outcome failure = std::exchange(failure_, {})) throw *failure;
}

bool Stream::is_idle() const {
  std::lock_guard lock(mutex_);
  return finished_ == pushed_;
}

void Stream::push(Item item) {
  if (item.until != nullptr)
    item.end.push_back([this](const Outcome& outcome) { finished(outcome); });
  std::unique_lock lock(mutex_);
  items_.push_back(std::move(item));
  ++pushed_;
  pump(lock);
}

// Starts items until one is under way. One thread pumps at a time; what others change meanwhile
// (a new item, a finished one) it sees when it takes the lock again. From the moment that the last
// item counts as finished with nobody pumping, the stream may be destroyed.
void Stream::pump(std::unique_lock<std::mutex>& lock) {
  if (pumping_) return;
  pumping_ = true;
  while (!busy_ && !items_.empty()) {
    Item item = std::move(items_.front());
    items_.pop_front();
    busy_ = true;
    if (item.on_thread) {
      for_thread_ = std::move(item.start);
      if (on_own_thread()) break;  // which takes it next
      lock.unlock();               // The thread does not wake up to wait for the lock.
      work_.notify_one();
      lock.lock();
      continue;
    }
    if (item.signals != nullptr) item.signals->mark(failure_);
    if (item.until == nullptr) count_finished({});
    lock.unlock();
    if (item.start) item.start();
    if (item.signals != nullptr) item.signals->notify();
    if (item.until != nullptr) item.until->then(std::move(item.end));
    item = {};
    lock.lock();
  }
  pumping_ = false;
  if (finished_ < awaited_) return;
  awaited_ = kNobody;
  reached_.notify_all();
}

void Stream::count_finished(const Outcome& outcome) {
  busy_ = false;
  ++finished_;
  if (outcome && !failure_) failure_ = outcome;
}

void Stream::finished(const Outcome& outcome) {
  std::unique_lock lock(mutex_);
  count_finished(outcome);
  pump(lock);
}

void Stream::thread_main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return ending_ || for_thread_; });
    if (ending_) return;
    const std::function<void()> function = std::exchange(for_thread_, nullptr);
    lock.unlock();
    function();
    finished({});
    lock.lock();
  }
}

void Event::record(Stream* stream) {
  auto point = std::make_shared<Completion>();
  {
    std::lock_guard lock(mutex_);
    latest_ = point;
  }
  if (stream != nullptr) {
    stream->record(std::move(point));
  } else {
    point->finish({});
  }
}

std::shared_ptr<Completion> Event::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace hostnccl
