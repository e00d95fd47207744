// Streams: ordered queues of work. An item starts when the one before it has finished.
//
// Host functions run on the stream's own thread. Everything else needs none: whoever finishes an
// item (a communicator's thread, say) starts the next one on the spot, so that handing over between
// a stream and a communicator costs one wake-up each way. What an item takes of memory it has when
// it is pushed: where it starts there is nobody to hear of an error.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "call_completion.h"
#include "failure.h"

namespace hostnccl {

class Stream {
 public:
  Stream();
  ~Stream();  // waits for the queue
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void run(std::function<void()> function);  // on the stream's thread
  // Finishes `point` when reached, with the stream's failure if it has one, which becomes that of
  // the streams that wait for the point: what they do next rests on work that failed.
  void record(std::shared_ptr<Completion> point);
  void wait_for(std::shared_ptr<Completion> point);
  // Calls `reached` when the stream gets there, then waits for `done`, whose failure becomes the
  // stream's.
  void attach(std::function<void()> reached, std::shared_ptr<Completion> done);

  // Makes it the stream's, if it has none.
  void give_up(const Failure& failure);

  void synchronize();  // throws the first failure since the last call
  bool is_idle() const;
  bool on_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  struct Item {
    std::function<void()> start;          // may be empty
    std::shared_ptr<Completion> until;    // may be null
    Completion::Listeners end;            // of `until`
    std::shared_ptr<Completion> signals;  // finished with the item; may be null
    bool on_thread = false;
  };
  static constexpr uint64_t kNobody = UINT64_MAX;
  void push(Item item);
  void pump(std::unique_lock<std::mutex>& lock);
  void finished(const Outcome& outcome);
  void count_finished(const Outcome& outcome);
  void thread_main();

  mutable std::mutex mutex_;
  std::condition_variable work_;     // the thread has a function, or ends
  std::condition_variable reached_;  // finished_ has come to awaited_
  std::deque<Item> items_;
  uint64_t pushed_ = 0;
  uint64_t finished_ = 0;
  uint64_t awaited_ = kNobody;  // min of what waiting threads need finished_ to be
  bool busy_ = false;           // an item has started and not finished
  bool pumping_ = false;        // a thread is in pump
  bool ending_ = false;
  std::function<void()> for_thread_;
  Outcome failure_;
  std::thread thread_;
};

class Event {
 public:
  void record(Stream* stream);
  std::shared_ptr<Completion> latest() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Completion> latest_;  // null: never recorded, complete
};

}  // namespace hostnccl
