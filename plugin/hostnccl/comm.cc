#include "comm.h"

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
  channel_.Open(rank(), size(), settings_.timeout, std::move(transport),
                std::make_unique<Liveness>(rank(), size(), star.TakeLinks(), settings_.timeout));
  Log(LogLevel::kInfo, rank(), "init {:x}: complete", magic());
}

bool Comm::HasWork() const {
  std::lock_guard lock(mutex_);
  return launches_.empty() ? leaving_ : launches_.front()->streams_awaited == 0;
}

std::shared_ptr<Launch> Comm::NextLaunch() {
  std::lock_guard lock(mutex_);
  return launches_.empty() ? nullptr : launches_.front();
}

void Comm::Serve() {
  while (member_) {
    std::shared_ptr<Launch> launch;
    try {
      channel_.WaitUntil([this] { return HasWork() ? Step::kDone : Step::kIdle; });
      launch = NextLaunch();
      if (launch == nullptr) return;  // leaving
      Execute(*launch);
      {
        std::lock_guard lock(mutex_);
        launches_.pop_front();
      }
      launch->done->Finish({});
    } catch (const Failure& failure) {
      Break(failure);
    } catch (const std::exception& error) {
      Break({ncclInternalError, error.what()});
    }
    if (stop_->raised()) return;
  }
}

void Comm::Execute(const Launch& launch) {
  for (const Op& op : launch.collectives) ExecuteCollective(op);
  if (!launch.point_to_point.empty()) ExecutePointToPoint(launch.point_to_point);
}

namespace {

[[noreturn]] void Explain(const Failure& failure, const std::string& what, int rank) {
  Fail(failure.code(), "{} on rank {}: {}", what, rank, failure.text());
}

}  // namespace

void Comm::ExecuteCollective(const Op& op) {
  channel_.Begin({collectives_ + 1, DigestOf(op), {}, [&op] { return Describe(op); }});
  try {
    RunCollective(op, channel_);
  } catch (const Failure& failure) {
    Explain(failure, Describe(op), rank());
  }
  channel_.End();
  ++collectives_;
}

void Comm::ExecutePointToPoint(const std::vector<Op>& ops) {
  std::set<int> peers;
  for (const Op& op : ops) peers.insert(op.peer);
  channel_.Begin({0, 0, {peers.begin(), peers.end()}, [&ops] { return Describe(ops.front()); }});
  try {
    RunPointToPoint(ops, channel_);
  } catch (const Failure& failure) {
    Explain(failure, Describe(ops.front()), rank());
  }
  channel_.End();
}

// The end of everything under way and queued. What the buffers hold is undefined, but nobody
// touches them any more when the streams go on.
void Comm::Break(const Failure& failure) {
  std::deque<std::shared_ptr<Launch>> launches;
  bool revoked;
  {
    std::lock_guard lock(mutex_);
    revoked = state_ == State::kRevoked;
    if (!revoked && !failure_) failure_ = failure;
  }
  channel_.Break(revoked ? nullptr : &failure);
  {
    std::lock_guard lock(mutex_);
    launches.swap(launches_);
  }
  if (!revoked) {
    SetLastError(failure.text());
    Log(LogLevel::kWarn, self_.rank, "{}", failure.text());
  }
  for (const auto& launch : launches) launch->done->Finish(failure);
  if (revoked) quiet_.Finish({});
}

void Comm::Leave() {
  const bool aborted = stop_->raised() && !IsExiting();
  const bool failed = failure_ && !IsExiting();
  if (aborted || failed || !channel_.IsOpen()) {
    channel_.Close();
    left_.Finish({});
  } else {
    left_.Finish({});
    channel_.Leave(collectives_);
  }
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
  std::lock_guard lock(mutex_);
  RequireUsable();
}

void Comm::RequireUsable() const {
  Require(state_ != State::kRevoked, ncclInvalidUsage, "the communicator was revoked");
  if (failure_) throw *failure_;
  Require(state_ != State::kFinalized && !leaving_, ncclInvalidUsage,
          "the communicator was finalized");
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
  latest_ = launch->done;
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

void Comm::WaitForLaunches() {
  std::shared_ptr<Completion> latest;
  {
    std::lock_guard lock(mutex_);
    latest = latest_;
  }
  if (latest != nullptr) latest->Wait();
}

void Comm::Finalize() {
  CheckUsable();
  std::lock_guard lock(mutex_);
  state_ = State::kFinalized;
}

void Comm::Destroy() {
  ready_.Wait();
  WaitForLaunches();
  {
    std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.Raise();
  left_.Wait();
}

void Comm::Abort() {
  RequestAbort();
  left_.Wait();
}

void Comm::Quiesce() {
  {
    std::lock_guard lock(mutex_);
    state_ = State::kRevoked;
    if (failure_) return;  // nothing is under way any more
  }
  channel_.Interrupt();
  quiet_.Wait();
}

ncclResult_t Comm::AsyncError() const {
  if (!ready_.finished()) return ncclInProgress;
  std::lock_guard lock(mutex_);
  if (failure_ && state_ != State::kRevoked) return failure_->code();
  const bool finalizing = state_ == State::kFinalized && !launches_.empty();
  return finalizing || background_work_ > 0 ? ncclInProgress : ncclSuccess;
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
