#include "work.h"

#include <optional>
#include <utility>

#include "callbacks.h"
#include "errors.h"
#include "watchdog.h"
#include "without_python.h"

namespace torch_hostnccl {
namespace {

int64_t elements(const Tensors& tensors) {
  int64_t sum = 0;
  for (const at::Tensor& tensor : tensors) sum += tensor.numel();
  return sum;
}

}  // namespace

HostWork::HostWork(int rank, c10d::OpType type, const char* title, Tensors inputs, Tensors outputs,
                   uint64_t sequence, Milliseconds timeout,
                   std::shared_ptr<Communicator> communicator)
    : Work(rank, type, title, inputs),
      inputs_(std::move(inputs)),
      outputs_(std::move(outputs)),
      sequence_(sequence),
      timeout_(at_most_ten_years(timeout)),
      communicator_(std::move(communicator)),
      elements_in_(elements(inputs_)),
      elements_out_(elements(outputs_)) {}

void HostWork::begin() {
  const auto self = WorkPtr::reclaim_copy(this);
  watch(self, began_ + timeout_);
  const cudaStream_t stream = communicator_->stream();
  check(hostncclEventCreate(&end_), "hostncclEventCreate");
  check(hostncclEventRecord(end_, stream), "hostncclEventRecord");
  check(hostncclLaunchHostFunc(stream, &HostWork::reached, new WorkPtr(self)),
        "hostncclLaunchHostFunc");
}

void HostWork::reached(void* work) {
  const std::unique_ptr<WorkPtr> self(static_cast<WorkPtr*>(work));
  (*self)->complete();
}

// On the stream's thread, behind the event: waiting for it takes no time, and tells how it went.
void HostWork::complete() {
  const ncclResult_t result = hostncclStreamWaitEvent(nullptr, end_);
  std::exception_ptr error;
  if (result != ncclSuccess) {
    const std::string reason = communicator_->reason();
    error = backend_error(reason.empty() ? describe(result, text().c_str())
                                         : c10::str(text(), " was aborted: ", reason));
  }
  hostncclEventDestroy(end_);
  settle(error);
}

void HostWork::settle(std::exception_ptr error) {
  {
    std::lock_guard lock(future_mutex_);
    if (std::exchange(settled_, true)) return;
    ended_ = Clock::now();
  }
  forget(this, began_ + timeout_);
  inputs_.clear();
  finish(std::move(error));
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard lock(future_mutex_);
    told_ = true;
    future = future_;
  }
  changed_.notify_all();
  if (future) {
    run_callback([self = WorkPtr::reclaim_copy(this), future] { self->mark(*future); });
  }
}

void HostWork::expire() {
  const auto took = std::chrono::duration_cast<Milliseconds>(Clock::now() - began_).count();
  communicator_->abort(c10::str("Watchdog caught collective operation timeout: ", text(),
                                " ran for ", took, " milliseconds before timing out."));
}

bool HostWork::isCompleted() {
  std::lock_guard lock(mutex_);
  return completed_;
}

bool HostWork::isSuccess() const {
  std::lock_guard lock(mutex_);
  return completed_ && exception_ == nullptr;
}

bool HostWork::wait(Milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return completed_; };
  if (timeout != kNoTimeout && !cv_.wait_for(lock, at_most_ten_years(timeout), done)) {
    lock.unlock();
    expire();
    lock.lock();
  }
  cv_.wait(lock, done);
  if (exception_) std::rethrow_exception(exception_);
  return true;
}

void HostWork::synchronize() { wait(); }

void HostWork::abort() { communicator_->abort(c10::str(text(), " was aborted")); }

std::vector<at::Tensor> HostWork::result() { return outputs_; }

c10::intrusive_ptr<c10::ivalue::Future> HostWork::getFuture() {
  std::optional<WithoutPython> unlocked;
  if (futures_in_order()) unlocked.emplace();
  std::unique_lock lock(future_mutex_);
  if (unlocked) changed_.wait(lock, [this] { return told_; });
  if (!future_) {
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (told_) mark(*future_);
  }
  return future_;
}

void HostWork::mark(c10::ivalue::Future& future) const {
  if (exception_) {
    future.setError(exception_);
  } else {
    future.markCompleted(c10::IValue(outputs_));
  }
}

float HostWork::getDuration() const {
  std::lock_guard lock(future_mutex_);
  TORCH_CHECK(settled_, "getDuration of a work that is under way");
  return std::chrono::duration<float, std::milli>(ended_ - began_).count();
}

std::string HostWork::text() const {
  return c10::str("WorkHostnccl(SeqNum=", sequence_,
                  ", OpType=", c10d::opTypeToString(retrieveOpType()), ", NumelIn=", elements_in_,
                  ", NumelOut=", elements_out_, ", Timeout(ms)=", timeout_.count(), ")");
}

}  // namespace torch_hostnccl
