// Streams: ordered queues of work. An item starts when the one before it has finished.
//
// Host functions run on the stream's own thread. Everything else needs none: whoever finishes an
// item (a communicator's thread, say) starts the next one on the spot, so that handing over between
// a stream and a communicator costs one wake-up each way.
#ifndef HOSTNCCL_STREAM_H_
#define HOSTNCCL_STREAM_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "completion.h"
#include "failure.h"

namespace hostnccl {

class Stream {
 public:
  Stream();
  ~Stream();  // waits for the queue
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void Run(std::function<void()> function);  // on the stream's thread
  // Finishes `point` when reached, with the stream's failure if it has one, which becomes that of
  // the streams that wait for the point: what they do next rests on work that failed.
  void Record(std::shared_ptr<Completion> point);
  void WaitFor(std::shared_ptr<Completion> point);
  // Calls `reached` when the stream gets there, then waits for `done`, whose failure becomes the
  // stream's.
  void Attach(std::function<void()> reached, std::shared_ptr<Completion> done);

  void Synchronize();  // throws the first failure since the last call
  bool IsIdle() const;
  bool OnOwnThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  struct Item {
    std::function<void()> start;          // may be empty
    std::shared_ptr<Completion> until;    // may be null
    std::shared_ptr<Completion> signals;  // finished with the item; may be null
    bool on_thread = false;
  };
  void Push(Item item);
  void Pump(std::unique_lock<std::mutex>& lock);
  void Finished(const Outcome& outcome);
  void CountFinished(const Outcome& outcome);
  void ThreadMain();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  uint64_t pushed_ = 0;
  uint64_t finished_ = 0;
  bool busy_ = false;     // an item has started and not finished
  bool pumping_ = false;  // a thread is in Pump
  bool ending_ = false;
  std::function<void()> for_thread_;
  Outcome failure_;
  std::thread thread_;
};

class Event {
 public:
  void Record(Stream* stream);
  std::shared_ptr<Completion> latest() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Completion> latest_;  // null: never recorded, complete
};

}  // namespace hostnccl

#endif  // HOSTNCCL_STREAM_H_
