#include "engine/run/run.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "engine/observe/ranges.h"
#include "engine/run/call_native.h"
#include "plan/chunks.h"

namespace terse {

using plan::Lane;
using plan::Step;

namespace {

// Returns false for works that ranks decide on differently, or that use a resource once.
bool shares(const Work& work) {
  const Job& first = *work.front();
  return !plan::traits(first.request.collective).rooted && first.communicator->settings.verify == 0;
}

// Max messages of a group. NCCL cuts a larger one into several launches, each rank by its own
// messages. If ranks send a peer unequally many, as with empty shards, launches of NCCL up to 2.28
// may wait for each other in a circle.
constexpr size_t kMaxMessagesTogether = 256;

// Messages of so many works, each of which exchanges one with every other rank.
size_t messages_of(size_t works, const Communicator& c) {
  return works * 2 * static_cast<size_t>(c.ranks - 1);
}

const Communicator& context_of(const FusedCall& call) {
  return *static_cast<const Communicator*>(call.context);
}

// Leaves the mark for terse run --require.
void leave_mark_once(const Settings& settings) {
  static std::atomic<bool> left{false};
  if (!settings.mark.empty() && !left.exchange(true)) leave_mark(compressed_mark(settings.mark));
}

}  // namespace

Run::Run(const Work& work, const Share& share, bool alone)
    : messages_(work),
      c_(*work.front()->communicator),
      stream_set_(c_.memory().stream_sets().of(work.front()->request.stream)),
      share_(share),
      verified_(is_to_be_verified()),
      learns_(is_to_learn()),
      plan_(plan_of(work, {.verified = verified_, .learns = learns_})),
      codebook_(codebook()),
      binding_(c_.memory().bindings().idle()),
      streams_(work.get_allocator()),
      waited_for_(plan_->steps.size(), false, work.get_allocator()) {
  for (const Job* job : work) {
    const Stream stream = job->request.stream;
    if (stream == nullptr && c_.backend.null_stream_is_synchronous())
      synchronous_ = true;
    else if (std::ranges::find(streams_, stream) == streams_.end())
      streams_.push_back(stream);
  }
  on_callers_stream_ = fits_callers_stream(alone);
  stream_set_.extend(share_.scratch + plan_->scratch_bytes);
  regions_.scratch = stream_set_.scratch() + share_.scratch;
  regions_.state = state();
  if (codebook_ != nullptr) {
    c_.read_levels();
    regions_.codebook = table();
    codebook_->calls += stream_set_.recording() == 0;
    codebook_->fits += learns_;
  }
  terse::bind(*plan_, messages_, c_.metrics().counters().sequence() + share_.calls, regions_,
              binding_);
  for (const Step& step : plan_->steps)
    for (const size_t before : step.after) waited_for_[before] = true;
  const Job* const timed = first_compressed(messages_);
  if (stream_set_.recording() == 0 && timed != nullptr)
    sample_ = c_.metrics().meter().start(*plan_, kind_of(*timed), number(), verified_);
  if (ranges::attached()) range_ = ranges::start(title(messages_, *plan_), plan_->raw_bytes);
}

std::optional<Share> Run::try_coschedule(const Work& next) const {
  const Job& job = *next.front();
  if (!shares(messages_) || !shares(next)) return {};
  const PlanPointer plan = plan_of_collective(job);
  // Windows are for one call at a time.
  if (plan_->fused || plan->fused) return {};
  // Works with the same state go one after another.
  const bool both_keep = !plan_->state.key.empty() && !plan->state.key.empty();
  if (both_keep && job.compressed().shadow == messages_.front()->compressed().shadow) return {};
  if (learns_ || will_learn(job)) return {};
  const size_t used = share_.scratch + plan_->scratch_bytes;
  const Share share{.scratch = plan::Chunks::round_up(used, plan::Chunks::kAlignment),
                    .events = share_.events + plan_->steps.size(),
                    .calls = share_.calls + 1};
  if (share.scratch + plan->scratch_bytes > c_.memory().reservations().scratch()) return {};
  if (messages_of(share.calls + 1, c_) > kMaxMessagesTogether) return {};
  return share;
}

// The lanes start after the callers' streams and the communicator's last call. A lane with nothing
// to do stays out: a recording would have to wait for it in the end.
void Run::begin(bool first) {
  Backend& b = c_.backend;
  if (verified_)
    regions_.exact =
        static_cast<char*>(c_.memory().exact().reserve(plan_->exact_bytes, stream_set_));
  if (first && !on_callers_stream_)
    for (const Stream stream : streams_) {
      b.record(stream_set_.caller_event(), stream);
      enter([&](Stream lane) { b.wait(lane, stream_set_.caller_event()); });
    }
  enter([&](Stream lane) {
    if (stream_set_.has_prior_work) b.wait(lane, stream_set_.finished_event());
  });
}

bool Run::advance() {
  for (; next_ < plan_->steps.size(); ++next_) {
    const Step& step = plan_->steps[next_];
    if (step.lane == Lane::kCommunicate) return true;
    const ranges::Scope scope(plan_->fused                 ? "fused"
                              : step.lane == Lane::kEncode ? "encode"
                                                           : "decode",
                              plan_->fused ? plan_->sent_bytes() : bytes(step));
    wait_for(step);
    if (sample_ != nullptr) sample_->before(next_, lane(step));
    const auto& batch = binding_.batches[next_];
    const auto& copies = binding_.copies[next_];
    if (step.header) enqueue_header(lane(step));
    if (!copies.empty()) c_.backend.copy(lane(step), copies);
    for (const codec::Checksum& check : binding_.checks[next_])
      c_.backend.checksum(lane(step), check);
    if (!batch.empty()) c_.backend.combine(lane(step), batch, stream_set_.replays());
    for (const codec::Learning& work : binding_.learns[next_]) c_.backend.learn(lane(step), work);
    if (plan_->fused) enqueue_fused(lane(step));
    mark(step);
  }
  return false;
}

void Run::enqueue_header(Stream lane) {
  HeaderStep& step = binding_.headers[next_header_++];
  step.stream = lane;
  c_.backend.run(lane, step);
}

void Run::enqueue_fused(Stream lane) {
  FusedCall& call = binding_.fused;
  call.is_over = [](const FusedCall& call) { return context_of(call).health().waits_in_vain(); };
  call.failed = [](const FusedCall& call, int gone) {
    context_of(call).health().fail_in_wait(call.stream, gone);
  };
  call.context = &c_;
  call.replays = stream_set_.replays();
  call.stream = lane;
  c_.backend.fuse(lane, call);
}

void Run::communicate() {
  const Step& step = plan_->steps[next_];
  wait_for(step);
  if (sample_ != nullptr) sample_->before(next_, lane(step));
  for (const plan::Transfer& t : step.transfers) transfer(t, lane(step));
  for (const plan::Native& n : step.natives)
    call_natively(request_of(n, messages_.front()->request, regions_), lane(step));
}

// A native message goes with the caller's own arguments.
void Run::transfer(const plan::Transfer& t, Stream lane) const {
  const Job& job = *messages_[t.message];
  if (job.is_native()) return call_natively(job.request, lane);
  const NcclTable& nccl = c_.library.nccl;
  char* const data = address(t.place, job.request, regions_);
  if (t.send)
    check_begun(c_.library, nccl.Send(data, t.bytes, ncclUint8, t.peer, c_.comm, lane), "ncclSend");
  else
    check_begun(c_.library, nccl.Recv(data, t.bytes, ncclUint8, t.peer, c_.comm, lane), "ncclRecv");
}

void Run::call_natively(Request request, Stream lane) const {
  request.stream = lane;
  check_begun(c_.library, call_native(c_, request), "native NCCL");
}

// The caller's streams continue after the decode lane, whose last step follows all others.
void Run::end() {
  Backend& b = c_.backend;
  if (stream_set_.replays() != nullptr) b.increment(last_lane(), stream_set_.replays());
  if (verified_ && sample_ != nullptr) compare();
  if (sample_ != nullptr) sample_->finish(last_lane());
  if (learns_) c_.memory().codebooks().fitted(*codebook_, last_lane());
  leave();
  count();
  ranges::end(range_);
  ended_ = true;
}

// Enqueued work still uses the caller's buffers and the scratch, and precedes what the caller or
// another call does next.
void Run::abandon() noexcept {
  // Continues if enqueueing fails: earlier work is under way.
  for (const auto part : {&Run::cut_off, &Run::wait_if_unmarked, &Run::wait_if_synchronous}) try {
      (this->*part)();
    } catch (const Error& e) {
      c_.log(LogLevel::kInfo, "{}", e.message);
    }
}

// The last lane waits for all others.
void Run::join_lanes() {
  if (on_one_lane()) return;
  for (size_t i = 0; i < entered_.size(); ++i) {
    const Stream lane = stream_set_.lanes()[i];
    if (!entered_[i] || lane == last_lane()) continue;
    c_.backend.record(step_event(i), lane);
    c_.backend.wait(last_lane(), step_event(i));
  }
}

void Run::cut_off() {
  if (ended_) return;
  ranges::end(range_);
  try {
    join_lanes();
  } catch (...) {  // a broken recording runs nothing
    release_binding();
    throw;
  }
  if (sample_ != nullptr) {
    sample_->finish(last_lane());
    c_.metrics().meter().drop(sample_);
  }
  leave();
}

// Waits for a call on the caller's stream whose end no lane waits for: its scratch would be taken
// for idle.
void Run::wait_if_unmarked() {
  if (on_callers_stream_ && has_enqueued() && !marked_ && stream_set_.recording() == 0)
    c_.backend.synchronize(last_lane());
}

void Run::wait_if_synchronous() {
  if (synchronous_) c_.memory().stream_sets().synchronize();
}

// Makes each lane wait that has something to do.
template <class Wait>
void Run::enter(const Wait& wait) {
  constexpr auto kDecode = static_cast<size_t>(Lane::kDecode);
  std::array<bool, plan::kLanes> used{};
  for (const Step& step : plan_->steps) used[on_one_lane() ? kDecode : step.queue()] = true;
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    // On the caller's stream nothing is enqueued yet if the wait fails, and the last call's end is
    // where it was.
    if (!on_callers_stream_) entered_[i] = true;
    wait(i == kDecode ? last_lane() : stream_set_.lanes()[i]);
    entered_[i] = true;
  }
}

// Releases the binding when the last lane has come here.
void Run::release_binding() {
  c_.backend.notify(
      last_lane(), [](void* binding) { static_cast<Binding*>(binding)->busy.store(false); },
      &binding_);
}

// Puts all that is enqueued before the end of the last lane.
void Run::leave() {
  Backend& b = c_.backend;
  release_binding();
  if (!has_enqueued()) return;
  b.record(stream_set_.finished_event(), last_lane());
  stream_set_.has_prior_work = true;
  if (!on_callers_stream_) {
    for (const Stream stream : streams_) b.wait(stream, stream_set_.finished_event());
  } else if (stream_set_.recording() == 0) {
    // While the call runs the set is not idle. A recording would have to wait for the lane.
    b.wait(decode_lane(), stream_set_.finished_event());
  }
  marked_ = true;
}

void Run::wait_for(const Step& step) {
  if (on_one_lane()) return;
  for (const size_t before : step.after) c_.backend.wait(lane(step), step_event(before));
}

void Run::mark(const Step& step) {
  const size_t index = &step - plan_->steps.data();
  if (sample_ != nullptr) sample_->after(index, lane(step));
  if (waited_for_[index] && !on_one_lane()) c_.backend.record(step_event(index), lane(step));
}

// Number of the call, for verifying. Not all ranks see a message, and an operator of the program's
// may be gone by the time of a native run.
CallNumber Run::number() const {
  const bool made = messages_.front()->request.op >= ncclNumOps;
  const uint64_t collective = c_.metrics().counters().collectives() + share_.calls;
  return {c_.agreed().ordinal(), c_.metrics().counters().sequence() + share_.calls,
          of_messages() || made ? std::nullopt : std::optional(collective)};
}

// State that prepare() has made, unless the call is recorded.
char* Run::state() const {
  if (plan_->state.key.empty()) return nullptr;
  if (const Shadow* const shadow = messages_.front()->compressed().shadow)
    return static_cast<char*>(shadow->memory);
  const StateKind kind = state_kind(*messages_.front());
  if (!c_.memory().states().agreed(kind, plan_->state)) fail_without_memory();
  return c_.memory().states().memory(kind, plan_->state);
}

// Codebook that prepare() has made, unless the call is recorded.
Codebook* Run::codebook() const {
  if (plan_->codebook_bytes == 0) return nullptr;
  Codebook* const known = c_.memory().codebooks().find(codebook_kind(*messages_.front()));
  if (known == nullptr) fail_without_memory();
  return known;
}

// Table for a call in a graph, apart from those that later calls fit anew.
float* Run::table() {
  if (stream_set_.recording() == 0) return codebook_->table;
  return c_.memory().codebooks().recorded(*codebook_, c_.memory().stream_sets());
}

void Run::fail_without_memory() const {
  c_.fail(ncclInvalidUsage,
          "{} keeps memory between calls, and is used for the first time while a graph is "
          "recorded; use it once before",
          print_scheme(messages_.front()->scheme()));
}

// A graph's calls use the levels at their recording.
bool Run::will_learn(const Job& job) const {
  if (is_message(job) || !may_learn(job) || stream_set_.recording() != 0) return false;
  const Codebook* const known = c_.memory().codebooks().find(codebook_kind(job));
  return known != nullptr && learns_at(job, known->calls + 1);
}

// A graph runs alike each time.
bool Run::is_to_be_verified() const {
  return stream_set_.recording() == 0 && !of_messages() &&
         c_.metrics().meter().verifies(kind_of(*messages_.front()), number());
}

// A rank without a result compares nothing.
void Run::compare() {
  const Job& job = *messages_.front();
  const codec::Dtype dtype = dtype_of(job);
  const size_t count = plan_->buffers.front().recv_bytes / codec::dtype_size(dtype);
  if (count != 0) sample_->compare(last_lane(), job.request.recv, regions_.exact, count, dtype);
}

// Counts by kind. The messages of a batch are timed as one call, of the first one's kind.
void Run::count() {
  Sample* sample = sample_;
  const std::pmr::vector<Sent> all = sent(messages_, *plan_);
  Sent sum;
  for (size_t i = 0; i < messages_.size(); ++i) {
    const Job& job = *messages_[i];
    if (job.is_native()) continue;
    c_.metrics().meter().count({.kind = kind_of(job),
                                .sent = all[i],
                                .predicted = job.route.choice ? job.route.choice->seconds : 0,
                                .elements = job.request.count,
                                .dtype = job.request.datatype,
                                .is_fused = plan_->fused != nullptr},
                               std::exchange(sample, nullptr));
    c_.metrics().counters().add_size(Outcome::kCompressed, message_bytes(job.request, c_.ranks));
    sum += all[i];
  }
  const auto calls = std::ranges::count(messages_, false, &Job::is_native);
  if (calls != 0) leave_mark_once(c_.settings);
  const size_t window_bytes = c_.memory().windows().bytes();
  c_.metrics().counters().add({.calls = static_cast<size_t>(calls),
                               .is_fused = plan_->fused != nullptr,
                               .sent = sum,
                               .scratch_bytes = stream_set_.scratch_bytes() + window_bytes,
                               .window_bytes = window_bytes,
                               .of_all_ranks = !of_messages() && stream_set_.recording() == 0});
}

// Bytes that the step makes or sends, for tools.
size_t Run::bytes(const Step& step) const {
  return ranges::attached() ? step_bytes(messages_, step) : 0;
}

}  // namespace terse
