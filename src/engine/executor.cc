#include "engine/executor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/bind.h"
#include "engine/native.h"
#include "engine/ranges.h"
#include "engine/work.h"

namespace terse {
namespace {

using plan::Lane;
using plan::Step;

// One work on its way through its plan.
class Run {
 public:
  explicit Run(const Work& work)
      : messages_(work),
        c_(*work.front()->communicator),
        track_(c_.track_for(work.front()->request.stream)),
        plan_(plan_of(work)),
        binding_(c_.idle_binding()),
        streams_(work.get_allocator()),
        waited_for_(plan_.steps.size(), false, work.get_allocator()) {
    for (const Job* job : work) {
      const Stream stream = job->request.stream;
      if (stream == nullptr && c_.backend.null_stream_is_synchronous())
        synchronous_ = true;
      else if (std::ranges::find(streams_, stream) == streams_.end())
        streams_.push_back(stream);
    }
    track_.reserve(plan_.scratch_bytes);
    bind(plan_, messages_, track_.scratch(), binding_);
    for (const Step& step : plan_.steps)
      for (const size_t before : step.after) waited_for_[before] = true;
    if (track_.recording() == 0) sample_ = c_.meter.start(plan_, number());
    if (ranges::attached()) range_ = ranges::start(title(messages_, plan_), plan_.raw_bytes);
  }

  // The lanes start after the caller's streams and after the communicator's last call; but those
  // with nothing to do stay out of it: a recording would have to wait for them in the end.
  void begin() {
    Backend& b = c_.backend;
    if (verified()) exact_ = c_.meter.exact(plan_.buffers.front().recv_bytes, track_);
    for (const Stream stream : streams_) {
      b.record(track_.caller_event(), stream);
      enter([&](Stream lane) { b.wait(lane, track_.caller_event()); });
    }
    enter([&](Stream lane) {
      if (track_.continues) b.wait(lane, track_.finished_event());
    });
  }

  // Whether the call also runs natively, before the plan, to know the plan's error.
  bool verified() const { return sample_ != nullptr && sample_->verified(); }

  // Its part of an NCCL group.
  void run_natively() {
    Request native = messages_.front()->request;
    native.recv = exact_;
    native.stream = last_lane();
    const ncclResult_t result = call_native(c_, native);
    if (result != ncclInProgress) check(c_.library, result, "native NCCL");
  }

  // The plan may overwrite what the native call reads.
  void ran_natively() {
    c_.backend.record(track_.caller_event(), last_lane());
    for (size_t i = 0; i < entered_.size(); ++i)
      if (entered_[i] && track_.lanes()[i] != last_lane())
        c_.backend.wait(track_.lanes()[i], track_.caller_event());
  }

  // Enqueues the computes up to the next communicate step; false when there is none left.
  bool advance() {
    for (; next_ < plan_.steps.size(); ++next_) {
      const Step& step = plan_.steps[next_];
      if (step.lane == Lane::kCommunicate) return true;
      const ranges::Scope scope(step.lane == Lane::kEncode ? "encode" : "decode", bytes(step));
      wait_for(step);
      if (sample_ != nullptr) sample_->before(next_, lane(step));
      const auto& batch = binding_.batches[next_];
      const auto& copies = binding_.copies[next_];
      if (!copies.empty()) c_.backend.copy(lane(step), copies);
      if (!batch.empty()) c_.backend.combine(lane(step), batch, track_.replays());
      mark(step);
    }
    return false;
  }

  // Its part of an NCCL group.
  void communicate() {
    const Step& step = plan_.steps[next_];
    wait_for(step);
    if (sample_ != nullptr) sample_->before(next_, lane(step));
    for (const plan::Transfer& t : step.transfers) {
      char* data = address(t.place, messages_[t.message]->request, track_.scratch());
      if (t.send)
        check(c_.library,
              c_.library.nccl.Send(data, t.bytes, ncclUint8, t.peer, c_.comm, lane(step)),
              "ncclSend");
      else
        check(c_.library,
              c_.library.nccl.Recv(data, t.bytes, ncclUint8, t.peer, c_.comm, lane(step)),
              "ncclRecv");
    }
  }

  void communicated() { mark(plan_.steps[next_++]); }

  // The caller's streams go on after the decode lane, whose last step follows all others.
  void end() {
    Backend& b = c_.backend;
    if (track_.replays() != nullptr) b.increment(last_lane(), track_.replays());
    if (verified()) compare();
    if (sample_ != nullptr) sample_->finish(last_lane());
    leave();
    count();
    ranges::end(range_);
    c_.stats.calls += std::ranges::count(messages_, false, &Job::native);
    c_.stats.raw_bytes += plan_.raw_bytes;
    c_.stats.wire_bytes += plan_.wire_bytes;
    c_.stats.scratch_bytes = std::max(c_.stats.scratch_bytes, track_.scratch_bytes());
    ++c_.sequence;
    if (!of_messages()) ++c_.collectives;
    ended_ = true;
  }

  // After a failure: what is enqueued by now still uses the caller's buffers and the scratch, and
  // so comes before what the caller or another call does next.
  void abandon() noexcept {
    if (ended_) return;
    ranges::end(range_);
    try {
      for (size_t i = 0; i < entered_.size(); ++i) {
        const Stream lane = track_.lanes()[i];
        if (!entered_[i] || lane == last_lane()) continue;
        c_.backend.record(track_.step_event(i), lane);
        c_.backend.wait(last_lane(), track_.step_event(i));
      }
      if (sample_ != nullptr) {
        sample_->finish(last_lane());
        c_.meter.drop(sample_);
      }
      leave();
    } catch (const Error& e) {
      log(LogLevel::kInfo, "{}: {}", c_.describe(), e.message);
    }
  }

  void wait_if_synchronous() {
    if (synchronous_) c_.synchronize();
  }

  // Of the step that comes next, for tools.
  size_t next_bytes() const { return bytes(plan_.steps[next_]); }

  const Communicator& communicator() const { return c_; }
  const NcclLibrary& library() const { return c_.library; }

 private:
  // Makes each lane wait that has something to do.
  template <class Wait>
  void enter(const Wait& wait) {
    std::array<bool, plan::kLanes> used{};
    for (const Step& step : plan_.steps) used[step.queue()] = true;
    if (verified()) used[static_cast<size_t>(Lane::kDecode)] = true;
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      entered_[i] = true;
      wait(track_.lanes()[i]);
    }
  }

  // All that is enqueued comes before the end of the last lane.
  void leave() {
    Backend& b = c_.backend;
    b.notify(
        last_lane(), [](void* binding) { static_cast<Binding*>(binding)->busy.store(false); },
        &binding_);
    if (!entered_[static_cast<size_t>(Lane::kDecode)]) return;  // and nothing is enqueued
    b.record(track_.finished_event(), last_lane());
    track_.continues = true;
    for (const Stream stream : streams_) b.wait(stream, track_.finished_event());
  }

  Stream last_lane() const { return track_.lanes()[static_cast<size_t>(Lane::kDecode)]; }
  Stream lane(const Step& step) const { return track_.lanes()[step.queue()]; }

  void wait_for(const Step& step) {
    for (const size_t before : step.after) c_.backend.wait(lane(step), track_.step_event(before));
  }

  bool of_messages() const { return is_message(*messages_.front()); }

  // Not all ranks come to a message, and so none can ask them to run it natively; and an operator
  // that the program has made may be gone by now.
  CallNumber number() const {
    const bool made = messages_.front()->request.op >= ncclNumOps;
    return {c_.sequence, of_messages() || made ? std::nullopt : std::optional(c_.collectives)};
  }

  void compare() {
    const Job& job = *messages_.front();
    const codec::Dtype dtype = dtype_of(job);
    sample_->compare(last_lane(), job.request.recv, exact_,
                     plan_.buffers.front().recv_bytes / codec::dtype_size(dtype), dtype);
  }

  // By kind. The messages of a batch are timed as one call, which is the first one's.
  void count() {
    Sample* sample = sample_;
    for (size_t i = 0; i < messages_.size(); ++i) {
      const Job& job = *messages_[i];
      if (job.native) continue;
      c_.meter.count({job.rule, job.request.collective, job.scheme}, sent(messages_, plan_, i),
                     std::exchange(sample, nullptr));
    }
  }

  // What the step makes or sends, for tools.
  size_t bytes(const Step& step) const {
    return ranges::attached() ? step_bytes(messages_, step) : 0;
  }

  void mark(const Step& step) {
    const size_t index = &step - plan_.steps.data();
    if (sample_ != nullptr) sample_->after(index, lane(step));
    if (waited_for_[index]) c_.backend.record(track_.step_event(index), lane(step));
  }

  const Work& messages_;  // of a collective one
  Communicator& c_;
  Track& track_;
  const plan::Plan& plan_;
  Binding& binding_;
  std::pmr::vector<Stream> streams_;  // the callers'
  bool synchronous_ = false;     // one of them wants it done on return
  std::pmr::vector<bool> waited_for_;
  size_t next_ = 0;
  std::array<bool, plan::kLanes> entered_{};
  bool ended_ = false;
  Sample* sample_ = nullptr;  // null: nothing is measured
  void* exact_ = nullptr;     // for the native result
  uint64_t range_ = 0;
};

// Runs a part of one communicator's work; its errors name the communicator.
template <class Part>
auto on(const Communicator& c, const Part& part) {
  try {
    return part();
  } catch (Error& e) {
    c.sign(e);
    throw;
  }
}

// One NCCL group of a part of each run.
template <class Part>
void in_group(const std::pmr::vector<Run*>& runs, const Part& part) {
  const NcclLibrary& library = runs.front()->library();
  const Communicator& first = runs.front()->communicator();
  on(first, [&] { check(library, library.nccl.GroupStart(), "ncclGroupStart"); });
  try {
    for (Run* run : runs) on(run->communicator(), [&] { (run->*part)(); });
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  const ncclResult_t end = library.nccl.GroupEnd();
  for (const Run* run : runs)
    on(run->communicator(), [&] { run->communicator().settle(end, "ncclGroupEnd"); });
}

// Runs works of different communicators together, step by step.
void execute_together(std::pmr::vector<Run>& runs) {
  const auto each = [](auto& run, auto part) {
    return on(run.communicator(), [&] { return (run.*part)(); });
  };
  std::pmr::vector<Run*> verified(runs.get_allocator()), talking(runs.get_allocator());
  for (Run& run : runs) {
    each(run, &Run::begin);
    if (run.verified()) verified.push_back(&run);
  }
  if (!verified.empty()) in_group(verified, &Run::run_natively);
  for (Run* run : verified) each(*run, &Run::ran_natively);
  for (;;) {
    talking.clear();
    for (Run& run : runs)
      if (each(run, &Run::advance)) talking.push_back(&run);
    if (talking.empty()) break;
    const ranges::Scope scope("communicate", talking.front()->next_bytes());
    in_group(talking, &Run::communicate);
    for (Run* run : talking) each(*run, &Run::communicated);
  }
  for (Run& run : runs) each(run, &Run::end);
}

}  // namespace

void execute(const Jobs& jobs) {
  // A communicator's works follow each other; the first works of all communicators go together,
  // then the second ones, and so on.
  const std::pmr::vector<Work> works = works_of(jobs);
  std::pmr::vector<const Work*> waiting(works.get_allocator()), later(works.get_allocator());
  std::pmr::vector<Run> runs(works.get_allocator());
  waiting.reserve(works.size());
  later.reserve(works.size());
  for (const Work& work : works) waiting.push_back(&work);
  while (!waiting.empty()) {
    runs.clear();
    later.clear();
    try {
      for (const Work* work : waiting) {
        const Communicator& c = *work->front()->communicator;
        const bool taken =
            std::ranges::any_of(runs, [&](const Run& run) { return &run.communicator() == &c; });
        if (taken)
          later.push_back(work);
        else
          on(c, [&] { runs.emplace_back(*work); });
      }
      execute_together(runs);
    } catch (...) {
      for (Run& run : runs) run.abandon();
      throw;
    }
    for (Run& run : runs) on(run.communicator(), [&] { run.wait_if_synchronous(); });
    waiting.swap(later);
  }
}

}  // namespace terse
