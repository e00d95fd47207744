#include "engine/call/observation.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "base/thread_local.h"
#include "engine/call/jobs.h"
#include "engine/observe/choice.h"
#include "engine/peers/wait.h"

namespace terse {
namespace {

// Calls of a communicator for each one whose scheme's error is found.
constexpr uint64_t kProbePeriod = 16;

// Kinds of calls of a communicator that are told apart by their messages, too.
constexpr size_t kMaxKinds = 64;

// As NCCL has it: a rank's own shard lies at its place in the other buffer.
bool is_in_place(const Request& r, int rank) {
  const plan::Traits& t = plan::traits(r.collective);
  const auto own = [&](const plan::Side& side, const plan::Side& other, const void* buffer) {
    const size_t offset = side.per_rank && !other.per_rank
                              ? static_cast<size_t>(rank) * r.count * datatype_size(r.datatype)
                              : 0;
    return static_cast<const char*>(buffer) + offset;
  };
  return own(t.send, t.recv, r.send) == own(t.recv, t.send, r.recv);
}

MessageKind message_of(const Request& r, const Communicator& c) {
  const bool reduces = plan::traits(r.collective).reduces;
  return {r.datatype,
          !reduces            ? ncclSum
          : r.op < ncclNumOps ? r.op
                              : ncclNumOps,
          message_bytes(r, c.ranks), is_in_place(r, c.rank)};
}

// Kind of an observed call, with its message unless there are many kinds.
CallKind observed_kind(const Job& job) {
  CallKind kind = kind_of(job);
  Communicator& c = *job.communicator;
  kind.message = message_of(job.request, c);
  if (c.metrics().meter().kinds() >= kMaxKinds && !c.metrics().meter().knows(kind))
    kind.message.reset();
  return kind;
}

// Plan of a call that NCCL does, for its times.
const plan::Plan& native_plan() {
  static const plan::Plan plan = [] {
    plan::Plan one;
    one.steps.push_back({.name = "native", .lane = plan::Lane::kCommunicate});
    return one;
  }();
  return plan;
}

Work work_of(Job& job) {
  Work work;
  work.push_back(&job);
  return work;
}

// Call that is observed. Its lane waits for the caller's stream before and after NCCL's call, so
// that what is measured is over when the communicator's streams are.
class Observation {
 public:
  Observation(CommunicatorPointer held, const Job& job)
      : held_(std::move(held)),
        job_(job),
        kind_(observed_kind(job)),
        native_anyway_(reason_to_stay_native(job)) {}

  Stream stream() const { return job_.request.stream; }

  // Measures the call, if it is to be timed.
  void begin() {
    if (native_anyway_ || c().recording(stream()) != 0) return;
    const CallKind& kind = kind_;
    const uint64_t number = c().metrics().observed_calls(), ordinal = c().agreed().ordinal();
    const bool probed =
        !c().metrics().meter().knows(kind) || is_chosen(kProbePeriod, ordinal, number);
    sample_ = c().metrics().meter().start(native_plan(), kind, {ordinal, number, {}}, probed);
    if (sample_ == nullptr) return;
    enter();
    if (probed) probe(number);
    sample_->before(0, lane());
  }

  // Counts the call. `timed`: NCCL has enqueued it.
  void end(bool timed) {
    if (sample_ != nullptr && timed) {
      enter();
      sample_->after(0, lane());
      sample_->finish(lane());
    } else {
      abandon();
    }
    if (native_anyway_) return count_bypass(c(), job_.request, *native_anyway_);
    count(std::exchange(sample_, nullptr));
    c().metrics().count_observed_call();
    count_bypass(c(), job_.request, TERSE_BYPASS_OBSERVED);
  }

  // Ends the measurement of a call that failed.
  void abandon() {
    Sample* const sample = std::exchange(sample_, nullptr);
    if (sample == nullptr) return;
    sample->finish(lane());
    c().metrics().meter().drop(sample);
  }

 private:
  Communicator& c() const { return *held_; }
  StreamSet& streams() const { return c().memory().stream_sets().of(stream()); }
  Stream lane() const { return streams().lanes()[0]; }
  bool is_synchronous() const {
    return stream() == nullptr && c().backend.null_stream_is_synchronous();
  }

  void enter() const {
    if (!is_synchronous()) lane_after_all(c(), stream());
  }

  // The call may overwrite what is looked at, and waits.
  void probe(uint64_t number) {
    const PlanPointer plan = plan_of(work_of(job_), {});
    const codec::Dtype dtype = dtype_of(job_);
    const size_t elements = plan->buffers.front().send_bytes / codec::dtype_size(dtype);
    c().metrics().error_probe().enqueue(lane(), job_.scheme().spec,
                                        {job_.request.send, elements, dtype}, number, *sample_);
    if (is_synchronous()) return streams().synchronize();
    c().backend.record(streams().finished_event(), lane());
    c().backend.wait(stream(), streams().finished_event());
  }

  void count(Sample* sample) {
    const Work work = work_of(job_);
    const Request& r = job_.request;
    const Saving saving = c().routing().savings().of(
        c().profile(), job_.scheme(), {r.collective, r.count, dtype_of(job_), c().ranks, r.root},
        c().routing().machines());
    c().metrics().meter().count({.kind = kind_,
                                 .sent = sent(work, *plan_of(work, {})).front(),
                                 .predicted = saving.compressed,
                                 .predicted_native = saving.native,
                                 .elements = r.count,
                                 .dtype = r.datatype},
                                sample);
  }

  CommunicatorPointer held_;
  Job job_;
  CallKind kind_;
  std::optional<int> native_anyway_;  // a TERSE_BYPASS reason
  Sample* sample_ = nullptr;
};

// Native call that is only traced. Its marks are on the caller's own stream: it makes no lane wait,
// and takes over no stream's failure.
class NativeTrace {
 public:
  NativeTrace(CommunicatorPointer held, const Request& request, int reason)
      : held_(std::move(held)), request_(request), reason_(reason) {}

  bool is_beside(const Communicator& c, Stream stream) const {
    return held_.get() == &c && request_.stream == stream;
  }

  void begin() {
    if (c().recording(request_.stream) != 0) return;
    sample_ = c().metrics().meter().start_native(native_plan());
    if (sample_ != nullptr) sample_->before(0, request_.stream);
  }

  void end(bool timed) {
    Sample* const sample = std::exchange(sample_, nullptr);
    if (sample == nullptr) return;
    if (timed) sample->after(0, request_.stream);
    sample->finish(request_.stream);
    if (!timed) return c().metrics().meter().drop(sample, true);
    const plan::Traffic bytes = native_traffic(c(), request_);
    c().metrics().meter().count({.kind = {kNoRule, request_.collective, {}},
                                 .sent = {bytes, bytes},
                                 .elements = request_.count,
                                 .dtype = request_.datatype,
                                 .bypass = reason_},
                                sample);
  }

 private:
  Communicator& c() const { return *held_; }

  CommunicatorPointer held_;
  Request request_;
  int reason_;
  Sample* sample_ = nullptr;
};

// Observations of the thread.
struct Observations {
  std::vector<Observation> all;
  std::vector<NativeTrace> natives;
};

// Runs a part, which fails no call.
template <class Part>
void carefully(const Part& part) noexcept {
  try {
    part();
  } catch (const std::exception& e) {
    log(LogLevel::kInfo, "a call is not observed: {}", e.what());
  }
}

}  // namespace

void observe(const CommunicatorPointer& held, const Request& request, const Route& route) noexcept {
  if (request.count == 0) return;
  carefully([&] {
    validate(request);  // NCCL says what is wrong
    validate(request, held->rank, held->ranks);
    std::vector<Observation>& all = ThreadLocal<Observations>::get().all;
    const bool first = std::ranges::find(all, request.stream, &Observation::stream) == all.end();
    all.emplace_back(held, Job{held.get(), request, route});
    // Calls of a group take their time together.
    if (first) all.back().begin();
  });
}

void trace_native(const CommunicatorPointer& held, const Request& request, int reason) noexcept {
  if (request.count == 0 || !held->metrics().meter().traces()) return;
  carefully([&] {
    std::vector<NativeTrace>& natives = ThreadLocal<Observations>::get().natives;
    // Calls of a group take their time together.
    if (std::ranges::any_of(natives, [&](const NativeTrace& each) {
          return each.is_beside(*held, request.stream);
        }))
      return;
    natives.emplace_back(held, request, reason);
    natives.back().begin();
  });
}

void end_observations(ncclResult_t result) noexcept {
  Observations* const own = ThreadLocal<Observations>::find();
  if (own == nullptr) return;
  const bool has_it = result == ncclSuccess || result == ncclInProgress;
  for (Observation& each : own->all)
    carefully([&] { has_it ? each.end(result == ncclSuccess) : each.abandon(); });
  for (NativeTrace& each : own->natives) carefully([&] { each.end(result == ncclSuccess); });
  own->all.clear();
  own->natives.clear();
}

}  // namespace terse
