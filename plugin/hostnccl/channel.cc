#include "channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "background.h"
#include "traffic.h"

namespace hostnccl {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr microseconds kSpin{5};           // there may be more ranks than cores
constexpr milliseconds kReportAfter{500};  // a call that takes longer is compared
constexpr std::chrono::seconds kExitPatience{1};
constexpr milliseconds kHeadStart{10};

}  // namespace

Channel::Channel(Flag& wake, const Flag& stop)
    : wake_(wake), stop_(stop), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) FailSystem("epoll_create1");
  Watch(wake_.fd(), kWake);
  Watch(stop_.fd(), kStop);
}

Channel::~Channel() { close(epoll_); }

void Channel::Watch(int fd, Source source) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = source;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) FailSystem("epoll_ctl");
}

void Channel::Open(int rank, int size, milliseconds timeout, std::unique_ptr<Transport> transport,
                   std::unique_ptr<Liveness> liveness) {
  rank_ = rank;
  size_ = size;
  timeout_ = timeout;
  transport_ = std::move(transport);
  liveness_ = std::move(liveness);
  traffic_ = std::make_unique<Traffic>(*this);
  Watch(transport_->event_fd(), kTransport);
  for (const int fd : liveness_->fds()) Watch(fd, kLiveness);
}

void Channel::Break(const Failure* failure) {
  if (failure != nullptr && liveness_ != nullptr && !liveness_->failure() && !IsExiting()) {
    liveness_->ReportFailure(*failure);
    // The others should stop first: UCX 1.13 may abort a process whose connections end while it
    // moves data over them (assertions in tcp_iface.c and ucp_worker.c).
    std::this_thread::sleep_for(kHeadStart);
  }
  traffic_.reset();
  transport_.reset();
  calls_.clear();
  present_ = nullptr;
}

void Channel::Close() {
  traffic_.reset();
  transport_.reset();
  liveness_.reset();
}

void Channel::Leave(uint64_t collectives_done) {
  liveness_->SayGoodbye(collectives_done);
  auto limit = Clock::time_point::max();
  while (!liveness_->everyone_left()) {
    const Clock::time_point now = Clock::now();
    if (limit == Clock::time_point::max() && stop_.raised()) {
      limit = now + kExitPatience;
      epoll_ctl(epoll_, EPOLL_CTL_DEL, stop_.fd(), nullptr);  // it stays up; do not spin on it
    }
    if (now >= limit) break;
    if (transport_ != nullptr && transport_->Progress()) continue;
    liveness_->Service();
    if (!liveness_->everyone_left()) Sleep(now);
  }
  if (transport_ != nullptr) transport_->Close(!liveness_->everyone_left());
}

void Channel::Begin(Call& call) {
  if (call.number != 0) liveness_->Record(call.number, call.digest);
  call.last_progress = Clock::now();
  calls_.push_back(&call);
  present_ = &call;
}

void Channel::End(const Call& call) {
  std::erase(calls_, &call);
  present_ = calls_.empty() ? nullptr : calls_.front();
}

uint64_t Channel::Digest(size_t bytes, size_t total) const {
  uint64_t digest = present_->number != 0 ? present_->digest : 0;
  digest = (digest ^ bytes) * 0x9e3779b97f4a7c15;
  digest = (digest ^ digest >> 32 ^ total) * 0x9e3779b97f4a7c15;
  return (digest ^ digest >> 32) & ~Transport::kMatched;
}

uint64_t Channel::Tag(int source, uint64_t digest) const {
  const uint64_t number = (present_->number & kNumberMask) << Transport::kDigestBits;
  const uint64_t from = static_cast<uint64_t>(source) << kRankShift;
  return (present_->number == 0 ? kPointToPoint : 0) | from | number | digest;
}

Request Channel::Send(int peer, const void* data, size_t bytes, size_t total, bool until_taken) {
  return transport_->Send(peer, Tag(rank_, Digest(bytes, total)), data, bytes, until_taken);
}

Request Channel::Receive(int peer, void* data, size_t bytes, size_t total) {
  return transport_->Receive(Tag(peer, Digest(bytes, total)), data, bytes);
}

void Channel::Relax(bool moved, Pause& pause) {
  constexpr int kCheckEvery = 64;  // also while progress never pauses
  if (moved && ++pause.rounds % kCheckEvery != 0) return;
  const Clock::time_point now = Clock::now();
  // Point-to-point calls count their own messages: those of another are no sign of hope.
  for (Call* call : calls_) {
    if (moved && call->number != 0) call->last_progress = now;
  }
  CheckAll(now);
  if (moved || pause.spin_until == Clock::time_point{}) pause.spin_until = now + kSpin;
  if (now < pause.spin_until) return;
  Sleep(now);
  pause.spin_until = {};
}

void Channel::CheckAll(Clock::time_point now) {
  if (stop_.raised()) {
    throw Failure(ncclInternalError, IsExiting() ? "the process exits" : "aborted");
  }
  if (liveness_ == nullptr) return;
  if (now >= liveness_->next_due()) liveness_->Service();
  if (transport_ == nullptr) return;  // broken already
  if (interrupted_) throw Failure(ncclInternalError, "the communicator was revoked");
  if (liveness_->failure()) throw *liveness_->failure();
  if (const int peer = transport_->lost_peer(); peer >= 0) {
    liveness_->Service();  // it may have said goodbye, or we may learn a better reason
    if (liveness_->failure()) throw *liveness_->failure();
    if (!liveness_->HasDeparted(peer)) {
      Fail(ncclRemoteError, "the connection to rank {} was lost", peer);
    }
  }
  for (Call* call : calls_) {
    present_ = call;
    CheckCall(*call, now);
  }
}

// Is there hope that this call ends?
void Channel::CheckCall(Call& call, Clock::time_point now) {
  if (call.number != 0) {
    if (const int peer = liveness_->DepartedBefore(call.number); peer >= 0) {
      Fail(ncclRemoteError, "rank {} has left the communicator and does not take part", peer);
    }
    if (!call.reported && now - call.last_progress > kReportAfter) {
      call.reported = true;
      liveness_->ReportPosition({call.number, call.digest, call.describe()});
    }
  } else if (now - call.last_progress > timeout_) {
    for (const int peer : call.peers) {
      if (liveness_->HasDeparted(peer)) {
        Fail(ncclRemoteError, "rank {} has left the communicator, {} waits for it", peer,
             call.describe());
      }
    }
  }
}

void Channel::Sleep(Clock::time_point now) {
  if (transport_ != nullptr && !transport_->Arm()) return;
  auto until = now + std::chrono::hours(1);
  if (liveness_ != nullptr) until = std::min(until, liveness_->next_due());
  for (const Call* call : calls_) {
    if (!call->reported) until = std::min(until, now + kReportAfter);
  }
  const auto wait = std::chrono::ceil<milliseconds>(until - now).count();
  epoll_event events[16];
  const int count =
      epoll_wait(epoll_, events, std::size(events), static_cast<int>(std::max<int64_t>(0, wait)));
  if (count < 0 && errno != EINTR) FailSystem("epoll_wait");
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u32 == kWake) wake_.Lower();
    if (events[i].data.u32 == kLiveness) liveness_->Service();
  }
}

char* Channel::Scratch(size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

}  // namespace hostnccl
