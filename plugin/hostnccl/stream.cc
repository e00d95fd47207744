#include "stream.h"

#include <system_error>
#include <utility>

namespace hostnccl {

Stream::Stream() {
  try {
    thread_ = std::thread(&Stream::ThreadMain, this);
  } catch (const std::system_error& error) {
    Fail(ncclSystemError, "cannot start a stream's thread: {}", error.what());
  }
}

Stream::~Stream() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return items_.empty() && !busy_ && !pumping_; });
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Stream::Run(std::function<void()> function) {
  Push({.start = std::move(function), .until = nullptr, .on_thread = true, .passes_failure = false});
}

void Stream::Record(std::shared_ptr<Completion> point) {
  Push({.start = [this, point = std::move(point)] { point->Finish(failure()); },
        .until = nullptr,
        .on_thread = false,
        .passes_failure = false});
}

void Stream::WaitFor(std::shared_ptr<Completion> point) {
  Push({.start = nullptr, .until = std::move(point), .on_thread = false, .passes_failure = true});
}

void Stream::Attach(std::function<void()> reached, std::shared_ptr<Completion> done) {
  Push({.start = std::move(reached),
        .until = std::move(done),
        .on_thread = false,
        .passes_failure = true});
}

void Stream::Synchronize() {
  auto point = std::make_shared<Completion>();
  Record(point);
  point->Wait();
  Outcome failure;
  {
    std::lock_guard lock(mutex_);
    failure_.swap(failure);
  }
  if (failure) throw *failure;
}

Outcome Stream::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

bool Stream::IsIdle() const {
  std::lock_guard lock(mutex_);
  return items_.empty() && !busy_;
}

void Stream::Push(Item item) {
  {
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
  }
  Pump();
}

// Starts items until one is under way. One thread pumps at a time; what others change meanwhile
// (a new item, a finished one) it sees when it takes the lock again.
void Stream::Pump() {
  std::unique_lock lock(mutex_);
  if (pumping_) return;
  pumping_ = true;
  while (!busy_ && !items_.empty()) {
    Item item = std::move(items_.front());
    items_.pop_front();
    busy_ = true;
    if (item.on_thread) {
      for_thread_ = std::move(item.start);
      changed_.notify_all();
      break;
    }
    lock.unlock();
    if (item.start) item.start();
    if (item.until != nullptr) {
      item.until->Then([this, passes = item.passes_failure](const Outcome& outcome) {
        Finished(passes ? outcome : Outcome());
      });
    } else {
      Finished({});
    }
    item = {};
    lock.lock();
  }
  pumping_ = false;
  changed_.notify_all();
}

void Stream::Finished(const Outcome& outcome) {
  {
    std::lock_guard lock(mutex_);
    busy_ = false;
    if (outcome && !failure_) failure_ = outcome;
  }
  Pump();
}

void Stream::ThreadMain() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || for_thread_; });
    if (ending_) return;
    const std::function<void()> function = std::exchange(for_thread_, nullptr);
    lock.unlock();
    function();
    Finished({});
    lock.lock();
  }
}

void Event::Record(Stream* stream) {
  auto point = std::make_shared<Completion>();
  {
    std::lock_guard lock(mutex_);
    latest_ = point;
  }
  if (stream != nullptr) {
    stream->Record(std::move(point));
  } else {
    point->Finish({});
  }
}

std::shared_ptr<Completion> Event::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace hostnccl
