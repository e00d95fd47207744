#include "comm.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "background.h"
#include "fork.h"
#include "host_collectives.h"
#include "nccl_log.h"
#include "ucx.h"

namespace hostnccl {
namespace {

// Held while a launch is put on its streams: all streams have the launches of all communicators in
// one order, or two of them could each wait for the other, on another stream.
struct Attaching {
  std::mutex mutex;
};

Failure ended_by_abort() { return {ncclInternalError, "the communicator was aborted"}; }

}  // namespace

Comm::Comm(Config config, Meet meet)
    : config_(std::move(config)), meet_(std::move(meet)), settings_(read_settings()) {}

std::shared_ptr<Comm> Comm::start(Config config, Meet meet) {
  auto comm = std::make_shared<Comm>(std::move(config), std::move(meet));
  run_in_background(comm->stop_, [comm] { comm->main(); });
  return comm;
}

// ---- On the communicator's thread ----

void Comm::main() {
  const UcxFailuresThrow scope;
  try {
    initialize();
    ready_.finish({});
  } catch (const Failure& failure) {
    fail_with({failure.code(), "initialisation: " + failure.text()});
    ready_.finish(failure_);
  } catch (const std::exception& error) {
    fail_with({ncclInternalError, std::string("initialisation: ") + error.what()});
    ready_.finish(failure_);
  }
  serve();
  leave();
}

void Comm::initialize() {
  Meeting meeting = std::exchange(meet_, nullptr)(settings_, *stop_);
  member_ = meeting.member;
  if (!member_) return;
  self_ = meeting.self;
  listener_ = std::move(meeting.listener);
  log(LogLevel::kInfo, rank(), "init {:x}: rank {} of {}", magic(), rank(), size());
  Star star = meeting.join(settings_, *stop_);

  const std::string address(reinterpret_cast<const char*>(&listener_->address), sizeof(Address));
  const Limit limit{Clock::now() + patience_of(self_, settings_), stop_.get()};
  for (const std::string& text : star.all_gather(address, limit)) {
    require(text.size() == sizeof(Address), ncclInternalError, "malformed address of a rank");
    std::memcpy(&listener_addresses_.emplace_back(), text.data(), sizeof(Address));
  }
  // Address that tells communicators apart: by NCCL_COMM_ID all would have one magic, and a group
  // no order of them.
  const std::string_view hub(reinterpret_cast<const char*>(listener_addresses_.data()),
                             sizeof(Address));
  const uint64_t met = std::exchange(self_.magic, mixed_with(magic(), hub));
  auto transport = std::make_unique<Transport>(rank(), data_device());
  const std::string connections = transport->connect(star.all_gather(transport->address(), limit));
  admit(star.all_gather(connections, limit), *transport, star, limit);
  // Who is heard of a second time has connected, and knew that all had: nobody went meanwhile. Only
  // then may the transport be moved along.
  star.all_gather({}, limit);
  channel_.open(rank(), size(), settings_.timeout, std::move(transport),
                std::make_unique<Liveness>(rank(), size(), star.take_links(), settings_.timeout));
  log(LogLevel::kInfo, rank(), "init {:x}: complete", met);
}

// The loopback interface where all ranks are on one machine, or in one network namespace of it:
// nothing of theirs can be reached from elsewhere. Else the one by which they met.
std::string Comm::data_device() const {
  const bool one_machine = std::ranges::all_of(listener_addresses_, [&](const Address& address) {
    return address.same_host(listener_->address);
  });
  const std::string loopback = one_machine ? loopback_interface() : "";
  return loopback.empty() ? interface_of(listener_->address) : loopback;
}

void Comm::admit(const std::vector<std::string>& connections, Transport& transport,
                 const Star& star, const Limit& limit) const {
  for (int missing; (missing = transport.admit(connections)) >= 0;) {
    star.require_links();
    if (stop_->raised()) fail(ncclInternalError, "aborted");
    if (Clock::now() >= limit.deadline) {
      fail(ncclSystemError, "no connection has come from rank {} as it made it", missing);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void Comm::serve() {
  while (member_) {
    try {
      channel_.wait_until([this] { return advance(); });
      const std::shared_ptr<Launch> launch = next_launch();
      if (launch == nullptr) return;  // leaving
      run_collectives(*launch);
      start(launch);
      continue;
    } catch (const Failure& failure) {
      // A process that ends with nothing left to do leaves in good order: what it has sent may
      // still be on its way.
      if (is_exiting() && is_idle()) return;
      fail_with(explained(failure));
    } catch (const std::exception& error) {
      fail_with({ncclInternalError, error.what()});
    }
    if (stop_->raised()) return;
  }
}

// Moves what is under way along and starts what may start. Done when there are collectives to run,
// or nothing is ever to come.
Step Comm::advance() {
  bool moved = !under_way_.empty() && channel_.traffic().advance();
  moved |= end_launches();
  while (const std::shared_ptr<Launch> launch = next_launch()) {
    if (!launch->collectives.empty()) return Step::kDone;
    start(launch);
    moved = true;
  }
  if (is_through()) return Step::kDone;
  return moved ? Step::kMoved : Step::kIdle;
}

bool Comm::is_idle() const {
  std::lock_guard lock(mutex_);
  return launches_.empty() && !failure_;
}

bool Comm::is_through() const {
  std::lock_guard lock(mutex_);
  return leaving_ && launches_.empty();
}

// The launch that may start now. Null if there is none, or it must wait for its streams or for what
// is under way.
std::shared_ptr<Launch> Comm::next_launch() const {
  std::lock_guard lock(mutex_);
  const auto next = std::find_if(launches_.begin(), launches_.end(),
                                 [](const auto& launch) { return !launch->started; });
  if (next == launches_.end() || (*next)->streams_awaited != 0) return nullptr;
  const size_t together = (*next)->collectives.empty() ? settings_.launches : 1;
  return under_way_.size() < together ? *next : nullptr;
}

// Starts what a launch has beside collectives: it ends by itself.
void Comm::start(const std::shared_ptr<Launch>& launch) {
  const std::vector<Op>& ops = launch->point_to_point;
  launch->started = true;
  if (ops.empty()) return finish(launch);
  launch->call.describe = [&ops] { return describe(ops.front()); };
  channel_.begin(launch->call);
  under_way_.push_back(launch);
  start_point_to_point(ops, channel_);
}

void Comm::run_collectives(Launch& launch) {
  for (const Op& op : launch.collectives) {
    collective_ = {collectives_ + 1, digest_of(op), [&op] { return describe(op); }};
    channel_.begin(collective_);
    run_collective(op, channel_);
    channel_.end(collective_);
    ++collectives_;
  }
}

// Those of which every message is through; true if there were any.
bool Comm::end_launches() {
  bool any = false;
  for (size_t i = 0; i < under_way_.size();) {
    const std::shared_ptr<Launch> launch = under_way_[i];
    if (launch->call.awaited != 0) {
      ++i;
      continue;
    }
    channel_.end(launch->call);
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(i));
    finish(launch);
    any = true;
  }
  return any;
}

void Comm::finish(const std::shared_ptr<Launch>& launch) {
  {
    std::lock_guard lock(mutex_);
    launches_.erase(std::ranges::find(launches_, launch));
  }
  launch->done->finish({});
}

Failure Comm::explained(const Failure& failure) const {
  const Call* call = channel_.present();
  if (call == nullptr) return failure;
  return {failure.code(),
          fmt::format("{} on rank {}: {}", call->describe(), rank(), failure.text())};
}

// The end of everything under way and queued. What the buffers hold is undefined, but nobody
// touches them any more when the streams go on. The first failure is the one that is told.
void Comm::fail_with(const Failure& failure) {
  std::deque<std::shared_ptr<Launch>> launches;
  bool is_first;
  {
    std::lock_guard lock(mutex_);
    is_first = !revoked_ && !failure_;
    if (is_first) {
      set_last_error(failure.text());  // there for whoever learns of it
      failure_ = failure;
    }
  }
  channel_.break_off(is_first ? &failure : nullptr);
  {
    std::lock_guard lock(mutex_);
    launches.swap(launches_);
  }
  under_way_.clear();
  if (is_first) log(LogLevel::kWarn, self_.rank, "{}", failure.text());
  for (const auto& launch : launches) launch->done->finish(failure);
  quiet_.finish({});
}

void Comm::leave() {
  refuse_more();
  quiet_.finish({});
  const bool aborted = stop_->raised() && !is_exiting();
  const bool failed = failure_ && !is_exiting();
  if (aborted || failed || !channel_.is_open()) {
    channel_.close();
    left_.finish({});
    return;
  }
  const Outcome failure = channel_.take_leave(collectives_);
  if (failure) {
    std::lock_guard lock(mutex_);
    set_last_error(failure->text());
    failure_ = failure;
  }
  left_.finish(failure);
  channel_.linger();
}

// No launch is left but where the process exits: its other threads, and its static destructors, may
// still make calls, and nobody would run them.
void Comm::refuse_more() {
  std::deque<std::shared_ptr<Launch>> launches;
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
    launches.swap(launches_);
  }
  for (const auto& launch : launches) {
    launch->done->finish(Failure(ncclInternalError, "the process exits"));
  }
}

// ---- From the program ----

bool Comm::wait_until_ready() {
  if (const Outcome& failure = ready_.wait()) throw *failure;
  return member_;
}

void Comm::require_initialized() const {
  require(ready_.finished(), ncclInvalidArgument,
          "the communicator is still being initialised: wait until ncclCommGetAsyncError no longer "
          "says ncclInProgress");
}

void Comm::require_undivided() const {
  require_initialized();
  std::lock_guard lock(mutex_);
  require_whole();
}

void Comm::check_usable() const {
  require_initialized();
  std::lock_guard lock(mutex_);
  require_usable();
  require_whole();
  require(!reports_later_, ncclInvalidArgument,
          "the communicator is still enqueuing: wait until ncclCommGetAsyncError no longer says "
          "ncclInProgress");
}

void Comm::check_divisible() const {
  if (is_revoked()) return require_undivided();
  check_usable();
}

bool Comm::is_revoked() const {
  std::lock_guard lock(mutex_);
  return revoked_;
}

void Comm::require_whole() const {
  require(!is_divided(), ncclInvalidArgument,
          "a part of the communicator is still being made: wait until ncclCommGetAsyncError no "
          "longer says ncclInProgress");
}

void Comm::require_usable() const {
  require(!revoked_, ncclInvalidUsage, "the communicator was revoked");
  if (failure_) throw *failure_;
  require(!leaving_, ncclInvalidUsage,
          is_exiting() ? "the process exits" : "the communicator was finalized");
}

std::shared_ptr<Launch> Comm::enqueue(std::vector<Op> ops,
                                      const std::set<std::shared_ptr<Stream>>& streams) {
  auto launch = std::make_shared<Launch>();
  for (Op& op : ops) {
    (op.is_point_to_point() ? launch->point_to_point : launch->collectives)
        .push_back(std::move(op));
  }
  launch->streams_awaited = static_cast<int>(streams.size());
  std::unique_lock lock(mutex_);
  require_usable();
  launches_.push_back(launch);
  // Under the lock, so that all streams see the launches in one order.
  attach(launch, streams);
  lock.unlock();
  if (streams.empty()) wake_.raise();
  return launch;
}

// mutex_ is held. Nothing that a stream calls takes either lock.
void Comm::attach(const std::shared_ptr<Launch>& launch,
                  const std::set<std::shared_ptr<Stream>>& streams) {
  std::lock_guard lock(of_process<Attaching>().mutex);
  for (const auto& stream : streams) {
    stream->attach(
        [comm = shared_from_this(), launch] {
          if (--launch->streams_awaited == 0) comm->wake_.raise();
        },
        launch->done);
  }
}

void Comm::finalize() {
  check_usable();
  begin_to_leave();
}

void Comm::begin_to_leave() {
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.raise();
}

void Comm::wait_until_left() {
  if (const Outcome& failure = left_.wait()) throw *failure;
}

void Comm::destroy() {
  begin_to_leave();
  const auto patience = 2 * settings_.timeout;  // as with what was sent
  if (!await_parts(patience)) {
    abort();
    fail(ncclRemoteError, "rank {}: a part of the communicator was not made within {:.1f} s",
         rank(), std::chrono::duration<double>(patience).count());
  }
  wait_until_left();
}

// A part is made and ended by its own thread, which needs nothing of the one that waits here.
bool Comm::await_parts(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return children_changed_.wait_for(lock, patience, [this] { return children_.empty(); });
}

void Comm::abort() {
  request_abort();
  std::unique_lock lock(mutex_);
  for (const auto& part : children_) {
    if (const std::shared_ptr<Comm> held = part.lock()) held->request_abort();
  }
  children_changed_.wait(lock, [this] { return children_.empty(); });
  lock.unlock();
  left_.wait();
}

void Comm::quiesce() {
  {
    std::lock_guard lock(mutex_);
    revoked_ = true;
  }
  channel_.interrupt();
  quiet_.wait();
}

bool Comm::reports_later() {
  if (!config_.blocking) reports_later_ = true;
  return !config_.blocking;
}

ncclResult_t Comm::async_error() {
  if (!ready_.finished()) return ncclInProgress;
  std::lock_guard lock(mutex_);
  if (failure_ && !revoked_) return failure_->code();
  const bool finalizing = leaving_ && !left_.finished();
  const bool enqueuing = reports_later_.exchange(false);
  if (finalizing || enqueuing || is_divided()) return ncclInProgress;
  return part_failure_ ? part_failure_->code() : ncclSuccess;
}

// abort stops this communicator before it takes the lock: whatever is not among children_ then has
// been handed out, or is refused here.
Outcome Comm::begin_part(const std::shared_ptr<Comm>& part) {
  std::lock_guard lock(mutex_);
  if (stop_->raised()) return ended_by_abort();
  children_.push_back(part);
  return {};
}

Outcome Comm::end_part(const std::shared_ptr<Comm>& part, const Outcome& failure,
                       const std::function<void()>& hand_out) {
  std::lock_guard lock(mutex_);
  std::erase_if(children_, [&](const auto& other) { return other.lock() == part; });
  children_changed_.notify_all();  // who waits for the parts goes on when the lock is free
  if (!config_.blocking && !part_failure_) part_failure_ = failure;
  Outcome lost = failure;
  if (!lost && stop_->raised()) lost = ended_by_abort();
  if (lost) {
    part->request_abort();
  } else {
    hand_out();
  }
  return lost;
}

// Numbers the next child, and forgets the failure of the one before, which has been reported.
uint64_t Comm::next_part(uint64_t& count) {
  std::lock_guard lock(mutex_);
  part_failure_.reset();
  return ++count;
}

}  // namespace hostnccl
