#include "engine/executor.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/log.h"
#include "engine/native.h"
#include "engine/ranges.h"
#include "policy/settings.h"

namespace terse {
namespace {

using plan::Lane;
using plan::Step;

// One job on its way through its plan.
class Run {
 public:
  explicit Run(const Job& job)
      : job_(job),
        c_(*job.communicator),
        track_(c_.track_for(job.request.stream)),
        plan_(plan_of(job)),
        binding_(c_.idle_binding()) {
    track_.reserve(plan_.scratch_bytes);
    bind();
    waited_for_.assign(plan_.steps.size(), false);
    for (const Step& step : plan_.steps)
      for (const size_t before : step.after) waited_for_[before] = true;
    sample_ = c_.meter.start(plan_, c_.sequence, track_.recording() != 0);
    if (ranges::attached()) range_ = ranges::start(title(), plan_.raw_bytes);
  }

  // The lanes start after the caller's stream and after the communicator's last call; but those
  // with nothing to do stay out of it: a recording would have to wait for them in the end.
  void begin() {
    Backend& b = c_.backend;
    if (verified()) exact_ = c_.meter.exact(plan_.recv_bytes, track_);
    if (!synchronous()) b.record(track_.caller_event(), job_.request.stream);
    std::array<bool, plan::kLanes> used{};
    for (const Step& step : plan_.steps) used[step.queue()] = true;
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const Stream lane = track_.lanes()[i];
      entered_[i] = true;
      if (!synchronous()) b.wait(lane, track_.caller_event());
      if (track_.continues) b.wait(lane, track_.finished_event());
    }
  }

  // Whether the call also runs natively, before the plan, to know the plan's error.
  bool verified() const { return sample_ != nullptr && sample_->verified(); }

  // Its part of an NCCL group.
  void run_natively() {
    Request native = job_.request;
    native.recv = exact_;
    native.stream = last_lane();
    check(c_.library, call_native(c_.library.nccl, native), "native NCCL");
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
      if (sample_ != nullptr) sample_->before(step, lane(step));
      c_.backend.combine(lane(step), binding_.batches[next_], track_.replays());
      mark(step);
    }
    return false;
  }

  // Its part of an NCCL group.
  void communicate() {
    const Step& step = plan_.steps[next_];
    wait_for(step);
    if (sample_ != nullptr) sample_->before(step, lane(step));
    for (const plan::Transfer& t : step.transfers) {
      char* data = address(t.place);
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

  // The caller's stream goes on after the decode lane, whose last step follows all others.
  void end() {
    Backend& b = c_.backend;
    if (track_.replays() != nullptr) b.increment(last_lane(), track_.replays());
    if (verified()) compare();
    if (sample_ != nullptr) sample_->finish(last_lane());
    leave();
    c_.meter.count({job_.rule, job_.request.collective, job_.scheme}, plan_, sample_);
    ranges::end(range_);
    ++c_.stats.calls;
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
    if (synchronous()) c_.synchronize();
  }

  // Of the step that comes next, for tools.
  size_t next_bytes() const { return bytes(plan_.steps[next_]); }

  const Communicator& communicator() const { return c_; }
  const NcclLibrary& library() const { return c_.library; }

 private:
  static const plan::Plan& plan_of(const Job& job) {
    codec::Dtype dtype{};
    compressible(job.request.datatype, &dtype);
    return job.communicator->plan_for(
        {job.request.collective, job.request.count, dtype, job.scheme.spec, job.scheme.algorithm});
  }

  bool synchronous() const {
    return job_.request.stream == nullptr && c_.backend.null_stream_is_synchronous();
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
    if (!synchronous()) b.wait(job_.request.stream, track_.finished_event());
  }

  Stream last_lane() const { return track_.lanes()[static_cast<size_t>(Lane::kDecode)]; }
  Stream lane(const Step& step) const { return track_.lanes()[step.queue()]; }

  void wait_for(const Step& step) {
    for (const size_t before : step.after) c_.backend.wait(lane(step), track_.step_event(before));
  }

  void compare() {
    codec::Dtype dtype{};
    compressible(job_.request.datatype, &dtype);
    sample_->compare(last_lane(), job_.request.recv, exact_,
                     plan_.recv_bytes / codec::dtype_size(dtype), dtype);
  }

  // What the step makes, uncompressed, or sends; only of interest where a tool listens.
  size_t bytes(const Step& step) const {
    size_t sum = 0;
    if (!ranges::attached()) return sum;
    for (const plan::Transfer& t : step.transfers) sum += t.send ? t.bytes : 0;
    for (const plan::Compute& c : step.compute)
      sum += c.count * datatype_size(job_.request.datatype);
    return sum;
  }

  // How tools name the call.
  std::string title() const {
    return fmt::format("{} {} {} B", plan::name(job_.request.collective), print_scheme(job_.scheme),
                       plan_.raw_bytes);
  }

  void mark(const Step& step) {
    if (sample_ != nullptr) sample_->after(step, lane(step));
    const size_t index = &step - plan_.steps.data();
    if (waited_for_[index]) c_.backend.record(track_.step_event(index), lane(step));
  }

  char* address(const plan::Place& place) const {
    switch (place.region) {
      case plan::Region::kSend:
        return const_cast<char*>(static_cast<const char*>(job_.request.send)) + place.offset;
      case plan::Region::kRecv:
        return static_cast<char*>(job_.request.recv) + place.offset;
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
    for (size_t i = 0; i < plan_.steps.size(); ++i) {
      binding_.batches[i].clear();
      for (const plan::Compute& compute : plan_.steps[i].compute)
        binding_.batches[i].push_back(bind(compute));
    }
  }

  codec::Combine bind(const plan::Compute& compute) {
    codec::Dtype dtype{};
    compressible(job_.request.datatype, &dtype);
    const auto raw = [&](bool packed) {
      return packed ? std::nullopt : std::optional<codec::Dtype>(dtype);
    };
    const size_t first = binding_.sources.size();
    for (const plan::Input& in : compute.inputs)
      binding_.sources.push_back({address(in.place), raw(in.packed)});
    const bool average =
        job_.request.collective != plan::Collective::kAllGather && job_.request.op == ncclAvg;
    const codec::Draw draw = codec::make_draw({.seed = job_.scheme.seed.value_or(settings().seed),
                                               .communicator = c_.ordinal,
                                               .sequence = c_.sequence,
                                               .rank = static_cast<uint32_t>(c_.rank),
                                               .piece = compute.piece,
                                               .stage = compute.stage});
    return {.spec = job_.scheme.spec,
            .sources = {binding_.sources.data() + first, compute.inputs.size()},
            .target = {address(compute.target), raw(compute.packed_target), draw, compute.origin},
            .factor = compute.final_sum && average ? 1.0f / static_cast<float>(c_.ranks) : 1.0f,
            .total = compute.count,
            .first = 0,
            .count = compute.count};
  }

  const Job& job_;
  Communicator& c_;
  Track& track_;
  const plan::Plan& plan_;
  Binding& binding_;
  std::vector<bool> waited_for_;
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
void in_group(const std::vector<Run*>& runs, const Part& part) {
  const NcclLibrary& library = runs.front()->library();
  const Communicator& first = runs.front()->communicator();
  on(first, [&] { check(library, library.nccl.GroupStart(), "ncclGroupStart"); });
  try {
    for (Run* run : runs) on(run->communicator(), [&] { (run->*part)(); });
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  on(first, [&] { check(library, library.nccl.GroupEnd(), "ncclGroupEnd"); });
}

// Runs jobs of different communicators together, step by step.
void execute_together(std::vector<Run>& runs) {
  const auto each = [](auto& run, auto part) {
    return on(run.communicator(), [&] { return (run.*part)(); });
  };
  std::vector<Run*> verified;
  for (Run& run : runs) {
    each(run, &Run::begin);
    if (run.verified()) verified.push_back(&run);
  }
  if (!verified.empty()) in_group(verified, &Run::run_natively);
  for (Run* run : verified) each(*run, &Run::ran_natively);
  for (;;) {
    std::vector<Run*> talking;
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

void execute(const std::vector<Job>& jobs) {
  // A communicator's jobs follow each other; the first jobs of all communicators go together, then
  // the second ones, and so on.
  std::vector<const Job*> waiting;
  for (const Job& job : jobs) waiting.push_back(&job);
  while (!waiting.empty()) {
    std::vector<Run> runs;
    std::vector<const Job*> later;
    try {
      for (const Job* job : waiting) {
        const bool taken = std::ranges::any_of(
            runs, [&](const Run& run) { return &run.communicator() == job->communicator; });
        if (taken)
          later.push_back(job);
        else
          on(*job->communicator, [&] { runs.emplace_back(*job); });
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
