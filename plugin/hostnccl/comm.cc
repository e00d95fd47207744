#include "comm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "background.h"
#include "collectives.h"
#include "log.h"

namespace hostnccl {

Comm::Comm(Config config, Meet meet)
    : config_(std::move(config)), meet_(std::move(meet)), settings_(ReadSettings()) {}

std::shared_ptr<Comm> Comm::Start(Config config, Meet meet) {
  auto comm = std::make_shared<Comm>(std::move(config), std::move(meet));
  RunInBackground(comm->stop_, [comm] { comm->Main(); });
  return comm;
}

// ---- On the communicator's thread ----

void Comm::Main() {
  try {
    Initialize();
    ready_.Finish({});
  } catch (const Failure& failure) {
    Break({failure.code(), "initialisation: " + failure.text()});
    ready_.Finish(failure_);
  } catch (const std::exception& error) {
    Break({ncclInternalError, std::string("initialisation: ") + error.what()});
    ready_.Finish(failure_);
  }
  Serve();
  Leave();
}

void Comm::Initialize() {
  Meeting meeting = std::exchange(meet_, nullptr)(settings_);
  member_ = meeting.member;
  if (!member_) return;
  self_ = meeting.self;
  door_ = std::move(meeting.door);
  Log(LogLevel::kInfo, rank(), "init {:x}: rank {} of {}", magic(), rank(), size());
  auto transport = std::make_unique<Transport>(rank());
  Star star = meeting.join(settings_, *stop_);

  const std::string door(reinterpret_cast<const char*>(&door_->address), sizeof(Address));
  const Limit limit{Clock::now() + settings_.timeout, stop_.get()};
  std::vector<std::string> addresses = star.AllGather(door + transport->Address(), limit);
  for (std::string& text : addresses) {
    Require(text.size() > sizeof(Address), ncclInternalError, "malformed address of a rank");
    std::memcpy(&doors_.emplace_back(), text.data(), sizeof(Address));
    text.erase(0, sizeof(Address));
  }
  transport->Connect(addresses);
  // Who is heard of a second time has connected, and knew that all had: nobody went meanwhile. Only
  // then may the transport be moved along.
  for (int times = 0; times < 2; ++times) star.AllGather({}, limit);
  channel_.Open(rank(), size(), settings_.timeout, std::move(transport),
                std::make_unique<Liveness>(rank(), size(), star.TakeLinks(), settings_.timeout));
  Log(LogLevel::kInfo, rank(), "init {:x}: complete", magic());
}

void Comm::Serve() {
  while (member_) {
    try {
      channel_.WaitUntil([this] { return Advance(); });
      const std::shared_ptr<Launch> launch = NextLaunch();
      if (launch == nullptr) return;  // leaving
      RunCollectives(*launch);
      Start(launch);
      continue;
    } catch (const Failure& failure) {
      // A process that ends with nothing left to do leaves in good order: what it has sent may
      // still be on its way.
      if (IsExiting() && IsIdle()) return;
      Break(Explained(failure));
    } catch (const std::exception& error) {
      Break({ncclInternalError, error.what()});
    }
    if (stop_->raised()) return;
  }
}

// Moves what is under way along and starts what may start. Done when there are collectives to run,
// or nothing is ever to come.
Step Comm::Advance() {
  bool moved = !under_way_.empty() && channel_.traffic().Advance();
  moved |= EndLaunches();
  while (const std::shared_ptr<Launch> launch = NextLaunch()) {
    if (!launch->collectives.empty()) return Step::kDone;
    Start(launch);
    moved = true;
  }
  if (IsThrough()) return Step::kDone;
  return moved ? Step::kMoved : Step::kIdle;
}

bool Comm::IsIdle() const {
  std::lock_guard lock(mutex_);
  return launches_.empty() && !failure_;
}

bool Comm::IsThrough() const {
  std::lock_guard lock(mutex_);
  return leaving_ && launches_.empty();
}

// The launch that may start now. Null if there is none, or it must wait for its streams or for what
// is under way.
std::shared_ptr<Launch> Comm::NextLaunch() const {
  std::lock_guard lock(mutex_);
  const auto next = std::find_if(launches_.begin(), launches_.end(),
                                 [](const auto& launch) { return !launch->started; });
  if (next == launches_.end() || (*next)->streams_awaited != 0) return nullptr;
  const size_t together = (*next)->collectives.empty() ? kLaunchesUnderWay : 1;
  return under_way_.size() < together ? *next : nullptr;
}

// Starts what a launch has beside collectives: it ends by itself.
void Comm::Start(const std::shared_ptr<Launch>& launch) {
  const std::vector<Op>& ops = launch->point_to_point;
  launch->started = true;
  if (ops.empty()) return Finish(launch);
  std::set<int> peers;
  for (const Op& op : ops) peers.insert(op.peer);
  launch->call.peers = {peers.begin(), peers.end()};
  launch->call.describe = [&ops] { return Describe(ops.front()); };
  channel_.Begin(launch->call);
  under_way_.push_back(launch);
  StartPointToPoint(ops, channel_);
}

void Comm::RunCollectives(Launch& launch) {
  for (const Op& op : launch.collectives) {
    collective_ = {collectives_ + 1, DigestOf(op), {}, [&op] { return Describe(op); }};
    channel_.Begin(collective_);
    RunCollective(op, channel_);
    channel_.End(collective_);
    ++collectives_;
  }
}

// Those of which every message is through; true if there were any.
bool Comm::EndLaunches() {
  bool any = false;
  for (size_t i = 0; i < under_way_.size();) {
    const std::shared_ptr<Launch> launch = under_way_[i];
    if (launch->call.awaited != 0) {
      ++i;
      continue;
    }
    channel_.End(launch->call);
    under_way_.erase(under_way_.begin() + static_cast<ptrdiff_t>(i));
    Finish(launch);
    any = true;
  }
  return any;
}

void Comm::Finish(const std::shared_ptr<Launch>& launch) {
  {
    std::lock_guard lock(mutex_);
    std::erase(launches_, launch);
  }
  launch->done->Finish({});
}

Failure Comm::Explained(const Failure& failure) const {
  const Call* call = channel_.present();
  if (call == nullptr) return failure;
  return {failure.code(),
          fmt::format("{} on rank {}: {}", call->describe(), rank(), failure.text())};
}

// The end of everything under way and queued. What the buffers hold is undefined, but nobody
// touches them any more when the streams go on.
void Comm::Break(const Failure& failure) {
  std::deque<std::shared_ptr<Launch>> launches;
  bool revoked;
  {
    std::lock_guard lock(mutex_);
    revoked = revoked_;
    if (!revoked && !failure_) failure_ = failure;
  }
  channel_.Break(revoked ? nullptr : &failure);
  {
    std::lock_guard lock(mutex_);
    launches.swap(launches_);
  }
  under_way_.clear();
  if (!revoked) {
    SetLastError(failure.text());
    Log(LogLevel::kWarn, self_.rank, "{}", failure.text());
  }
  for (const auto& launch : launches) launch->done->Finish(failure);
  if (revoked) quiet_.Finish({});
}

void Comm::Leave() {
  quiet_.Finish({});
  const bool aborted = stop_->raised() && !IsExiting();
  const bool failed = failure_ && !IsExiting();
  if (aborted || failed || !channel_.IsOpen()) {
    channel_.Close();
    left_.Finish({});
    return;
  }
  const Outcome failure = channel_.TakeLeave(collectives_);
  if (failure) {
    std::lock_guard lock(mutex_);
    failure_ = failure;
  }
  left_.Finish(failure);
  channel_.Linger();
}

// ---- From the program ----

bool Comm::WaitUntilReady() {
  if (const Outcome& failure = ready_.Wait()) throw *failure;
  return member_;
}

void Comm::RequireInitialized() const {
  Require(ready_.finished(), ncclInvalidArgument,
          "the communicator is still being initialised: wait until ncclCommGetAsyncError no longer "
          "says ncclInProgress");
}

void Comm::CheckUsable() const {
  RequireInitialized();
  Require(!reports_later_, ncclInvalidArgument,
          "the communicator is still enqueuing: wait until ncclCommGetAsyncError no longer says "
          "ncclInProgress");
  std::lock_guard lock(mutex_);
  RequireUsable();
}

void Comm::RequireUsable() const {
  Require(!revoked_, ncclInvalidUsage, "the communicator was revoked");
  if (failure_) throw *failure_;
  Require(!leaving_, ncclInvalidUsage, "the communicator was finalized");
}

std::shared_ptr<Launch> Comm::Enqueue(std::vector<Op> ops,
                                      const std::set<std::shared_ptr<Stream>>& streams) {
  CheckSelfMessages(ops, rank());
  auto launch = std::make_shared<Launch>();
  for (Op& op : ops) {
    (op.is_point_to_point() ? launch->point_to_point : launch->collectives)
        .push_back(std::move(op));
  }
  launch->streams_awaited = static_cast<int>(streams.size());
  std::unique_lock lock(mutex_);
  RequireUsable();
  launches_.push_back(launch);
  // Under the lock, so that all streams see the launches in one order. Nothing that a stream calls
  // takes it.
  for (const auto& stream : streams) {
    stream->Attach(
        [comm = shared_from_this(), launch] {
          if (--launch->streams_awaited == 0) comm->wake_.Raise();
        },
        launch->done);
  }
  lock.unlock();
  if (streams.empty()) wake_.Raise();
  return launch;
}

void Comm::Finalize() {
  CheckUsable();
  BeginToLeave();
}

void Comm::BeginToLeave() {
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.Raise();
}

void Comm::WaitUntilLeft() {
  if (const Outcome& failure = left_.Wait()) throw *failure;
}

void Comm::Destroy() {
  BeginToLeave();
  WaitUntilLeft();
}

void Comm::Abort() {
  RequestAbort();
  left_.Wait();
}

void Comm::Quiesce() {
  {
    std::lock_guard lock(mutex_);
    revoked_ = true;
    if (failure_) return;  // nothing is under way any more
  }
  channel_.Interrupt();
  quiet_.Wait();
}

bool Comm::ReportsLater() {
  if (!config_.blocking) reports_later_ = true;
  return !config_.blocking;
}

ncclResult_t Comm::AsyncError() {
  if (!ready_.finished()) return ncclInProgress;
  std::lock_guard lock(mutex_);
  if (failure_ && !revoked_) return failure_->code();
  const bool finalizing = leaving_ && !left_.finished();
  const bool enqueuing = reports_later_.exchange(false);
  return finalizing || enqueuing || background_work_ > 0 ? ncclInProgress : ncclSuccess;
}

// ---- Operators ----

ncclRedOp_t Comm::AddOperator(const Operator& op, ncclDataType_t dtype) {
  std::lock_guard lock(mutex_);
  const int handle = next_operator_++;
  operators_[handle] = {op, dtype};
  return static_cast<ncclRedOp_t>(handle);
}

void Comm::RemoveOperator(ncclRedOp_t handle) {
  std::lock_guard lock(mutex_);
  if (operators_.erase(handle) == 0) {
    Fail(ncclInvalidArgument, "operator {} was not made for this communicator",
         static_cast<int>(handle));
  }
}

Operator Comm::ResolveOperator(ncclRedOp_t handle, ncclDataType_t dtype) const {
  if (handle >= 0 && handle < ncclNumOps) return {.kind = handle};
  std::lock_guard lock(mutex_);
  const auto found = operators_.find(handle);
  if (found == operators_.end()) {
    Fail(ncclInvalidArgument, "operator {} is not valid on this communicator",
         static_cast<int>(handle));
  }
  if (found->second.second != dtype) {
    Fail(ncclInvalidArgument, "operator {} was made for another data type",
         static_cast<int>(handle));
  }
  return found->second.first;
}

}  // namespace hostnccl
