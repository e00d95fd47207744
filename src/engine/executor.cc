#include "engine/executor.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/log.h"
#include "engine/work.h"
#include "policy/settings.h"

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
        binding_(c_.idle_binding()) {
    for (const Job* job : work) {
      const Stream stream = job->request.stream;
      if (stream == nullptr && c_.backend.null_stream_is_synchronous())
        synchronous_ = true;
      else if (std::ranges::find(streams_, stream) == streams_.end())
        streams_.push_back(stream);
    }
    track_.reserve(plan_.scratch_bytes);
    bind();
    waited_for_.assign(plan_.steps.size(), false);
    for (const Step& step : plan_.steps)
      for (const size_t before : step.after) waited_for_[before] = true;
  }

  // The lanes start after the caller's streams and after the communicator's last call; but those
  // with nothing to do stay out of it: a recording would have to wait for them in the end.
  void begin() {
    Backend& b = c_.backend;
    for (const Stream stream : streams_) {
      b.record(track_.caller_event(), stream);
      enter([&](Stream lane) { b.wait(lane, track_.caller_event()); });
    }
    enter([&](Stream lane) {
      if (track_.continues) b.wait(lane, track_.finished_event());
    });
  }

  // Enqueues the computes up to the next communicate step; false when there is none left.
  bool advance() {
    for (; next_ < plan_.steps.size(); ++next_) {
      const Step& step = plan_.steps[next_];
      if (step.lane == Lane::kCommunicate) return true;
      wait_for(step);
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
    for (const plan::Transfer& t : step.transfers) {
      char* data = address(t.place, t.message);
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
    leave();
    c_.stats.calls += std::ranges::count(messages_, false, &Job::native);
    c_.stats.raw_bytes += plan_.raw_bytes;
    c_.stats.wire_bytes += plan_.wire_bytes;
    c_.stats.scratch_bytes = std::max(c_.stats.scratch_bytes, track_.scratch_bytes());
    ++c_.sequence;
    ended_ = true;
  }

  // After a failure: what is enqueued by now still uses the caller's buffers and the scratch, and
  // so comes before what the caller or another call does next.
  void abandon() noexcept {
    if (ended_) return;
    try {
      for (size_t i = 0; i < entered_.size(); ++i) {
        const Stream lane = track_.lanes()[i];
        if (!entered_[i] || lane == last_lane()) continue;
        c_.backend.record(track_.step_event(i), lane);
        c_.backend.wait(last_lane(), track_.step_event(i));
      }
      leave();
    } catch (const Error& e) {
      log(LogLevel::kInfo, "{}: {}", c_.describe(), e.message);
    }
  }

  void wait_if_synchronous() {
    if (synchronous_) c_.synchronize();
  }

  const Communicator& communicator() const { return c_; }
  const NcclLibrary& library() const { return c_.library; }

 private:
  // Makes each lane wait that has something to do.
  template <class Wait>
  void enter(const Wait& wait) {
    std::array<bool, plan::kLanes> used{};
    for (const Step& step : plan_.steps) used[step.queue()] = true;
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

  void mark(const Step& step) {
    const size_t index = &step - plan_.steps.data();
    if (waited_for_[index]) c_.backend.record(track_.step_event(index), lane(step));
  }

  char* address(const plan::Place& place, size_t message) const {
    const Request& r = messages_[message]->request;
    switch (place.region) {
      case plan::Region::kSend:
        return const_cast<char*>(static_cast<const char*>(r.send)) + place.offset;
      case plan::Region::kRecv:
        return static_cast<char*>(r.recv) + place.offset;
      case plan::Region::kScratch:
        break;
    }
    return track_.scratch() + place.offset;
  }

  // Turns the plan's places into addresses, in memory that is reused from call to call.
  void bind() {
    binding_.busy.store(true);
    size_t inputs = 0;
    for (const Step& step : plan_.steps)
      for (const plan::Compute& compute : step.compute) inputs += compute.inputs.size();
    binding_.sources.clear();
    binding_.sources.reserve(inputs);  // so that the spans into it stay valid
    if (binding_.batches.size() < plan_.steps.size()) binding_.batches.resize(plan_.steps.size());
    binding_.copies.resize(binding_.batches.size());
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      binding_.batches[i].clear();
      for (const plan::Compute& compute : plan_.steps[i].compute)
        binding_.batches[i].push_back(bind(compute));
      bind(plan_.steps[i].copies, binding_.copies[i]);
    }
  }

  // In place there is nothing to copy.
  void bind(const std::vector<plan::Copy>& copies, std::vector<Copy>& bound) const {
    bound.clear();
    for (const plan::Copy& copy : copies) {
      char* const target = address(copy.target, 0);
      const char* const source = address(copy.source, 0);
      if (target != source) bound.push_back({target, source, copy.bytes});
    }
  }

  codec::Combine bind(const plan::Compute& compute) {
    const Job& job = *messages_[compute.message];
    const codec::Dtype dtype = dtype_of(job);
    const auto raw = [&](bool packed) {
      return packed ? std::nullopt : std::optional<codec::Dtype>(dtype);
    };
    const size_t first = binding_.sources.size();
    for (const plan::Input& in : compute.inputs)
      binding_.sources.push_back({address(in.place, compute.message), raw(in.packed)});
    const Reduction& reduction = job.reduction;
    const codec::Draw draw = codec::make_draw({.seed = job.scheme.seed.value_or(settings().seed),
                                               .communicator = c_.ordinal,
                                               .sequence = c_.sequence,
                                               .rank = static_cast<uint32_t>(c_.rank),
                                               .piece = compute.piece,
                                               .stage = compute.stage});
    return {.spec = job.scheme.spec,
            .sources = {binding_.sources.data() + first, compute.inputs.size()},
            .target = {address(compute.target, compute.message), raw(compute.packed_target), draw,
                       compute.origin},
            .factor =
                compute.final_sum && reduction.average ? 1.0f / static_cast<float>(c_.ranks) : 1.0f,
            .premultiply = reduction.premultiply,
            .total = compute.count,
            .first = 0,
            .count = compute.count};
  }

  const Work& messages_;  // of a collective one
  Communicator& c_;
  Track& track_;
  const plan::Plan& plan_;
  Binding& binding_;
  std::vector<Stream> streams_;  // the callers'
  bool synchronous_ = false;     // one of them wants it done on return
  std::vector<bool> waited_for_;
  size_t next_ = 0;
  std::array<bool, plan::kLanes> entered_{};
  bool ended_ = false;
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

// Runs works of different communicators together, step by step.
void execute_together(std::vector<Run>& runs) {
  const NcclLibrary& library = runs.front().library();
  const auto each = [](auto& run, auto part) {
    return on(run.communicator(), [&] { return (run.*part)(); });
  };
  for (Run& run : runs) each(run, &Run::begin);
  for (;;) {
    std::vector<Run*> talking;
    for (Run& run : runs)
      if (each(run, &Run::advance)) talking.push_back(&run);
    if (talking.empty()) break;
    const Communicator& first = talking.front()->communicator();
    on(first, [&] { check(library, library.nccl.GroupStart(), "ncclGroupStart"); });
    try {
      for (Run* run : talking) each(*run, &Run::communicate);
    } catch (...) {
      library.nccl.GroupEnd();
      throw;
    }
    const ncclResult_t end = library.nccl.GroupEnd();
    for (const Run* run : talking)
      on(run->communicator(), [&] { run->communicator().settle(end, "ncclGroupEnd"); });
    for (Run* run : talking) each(*run, &Run::communicated);
  }
  for (Run& run : runs) each(run, &Run::end);
}

}  // namespace

void execute(const std::vector<Job>& jobs) {
  // A communicator's works follow each other; the first works of all communicators go together,
  // then the second ones, and so on.
  const std::vector<Work> works = works_of(jobs);
  std::vector<const Work*> waiting;
  for (const Work& work : works) waiting.push_back(&work);
  while (!waiting.empty()) {
    std::vector<Run> runs;
    std::vector<const Work*> later;
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
    waiting = std::move(later);
  }
}

}  // namespace terse
