// A call that is under way: what torch waits for.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "communicator.h"

namespace torch_hostnccl {

using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;

// The clock counts nanoseconds, of which there are not enough for what a program may ask.
inline Milliseconds at_most_ten_years(Milliseconds timeout) {
  return std::min<Milliseconds>(timeout, std::chrono::hours(10 * 365 * 24));
}

// Done when the communicator's stream has got there: the tensors then hold the result, so that
// wait() is all that a program must do, and no stream of its own is needed.
class HostWork final : public c10d::Work {
 public:
  // Holds the tensors until it is done. It fails, and the communicator is aborted, when the call
  // takes longer than `timeout`.
  HostWork(int rank, c10d::OpType type, const char* title, Tensors inputs, Tensors outputs,
           uint64_t sequence, Milliseconds timeout, std::shared_ptr<Communicator> communicator);

  // After what it stands for has been queued: queues its end.
  void begin();

  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(Milliseconds timeout = kNoTimeout) override;
  void synchronize() override;
  void abort() override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  float getDuration() const override;
  uint64_t getSequencenumber() const override { return sequence_; }

  void expire();  // its time is over

 private:
  using Clock = std::chrono::steady_clock;

  static void reached(void* work);
  void complete();
  void settle(std::exception_ptr error);
  void mark(c10::ivalue::Future& future) const;
  std::string text() const;

  Tensors inputs_;
  const Tensors outputs_;
  const uint64_t sequence_;
  const Milliseconds timeout_;
  const std::shared_ptr<Communicator> communicator_;
  const int64_t elements_in_;
  const int64_t elements_out_;
  hostncclEvent_t end_ = nullptr;
  Clock::time_point began_ = Clock::now();
  Clock::time_point ended_;

  mutable std::mutex future_mutex_;
  std::condition_variable changed_;
  bool settled_ = false;
  bool told_ = false;  // the future that there was, if there was one
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using WorkPtr = c10::intrusive_ptr<HostWork>;

}  // namespace torch_hostnccl
