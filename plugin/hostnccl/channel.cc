#include "channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "background.h"
#include "farewell.h"
#include "log.h"
#include "traffic.h"

namespace hostnccl {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr microseconds kSpin{5};           // there may be more ranks than cores
constexpr milliseconds kReportAfter{500};  // a call that takes longer is compared
constexpr std::chrono::seconds kExitPatience{1};
constexpr milliseconds kHeadStart{10};
// A goodbye comes by another connection than the one that is lost.
constexpr std::chrono::seconds kGoodbyePatience{3};

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
  farewell_ = std::make_unique<Farewell>(*this);
  partners_.resize(static_cast<size_t>(size));
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
  DropRequests();
  transport_.reset();
  calls_.clear();
  present_ = nullptr;
}

void Channel::Close() {
  DropRequests();
  transport_.reset();
  liveness_.reset();
}

void Channel::DropRequests() {
  traffic_.reset();
  if (farewell_ != nullptr) farewell_->Drop();
}

Outcome Channel::TakeLeave(uint64_t collectives_done) {
  liveness_->SayGoodbye(collectives_done);
  if (transport_ == nullptr) return {};  // revoked: nothing is on its way
  for (int peer = 0; peer < size_; ++peer) {
    if (partners_[static_cast<size_t>(peer)]) farewell_->Say(peer, collectives_done);
  }
  // Who is silent is found out after the timeout; here it beats, and yet does not take what comes.
  const auto patience = 2 * timeout_;
  int unheard = -1;
  const bool in_time = ServeUntil(
      [&] {
        unheard = farewell_->Unheard(*liveness_);
        return unheard < 0 || liveness_->failure();
      },
      Clock::now() + patience);
  if (unheard < 0 || stop_.raised()) return {};
  if (in_time) {
    Log(LogLevel::kInfo, rank_, "leaves, though rank {} may not have all that was sent to it: {}",
        unheard, liveness_->failure()->text());
    return {};
  }
  return Failure(ncclRemoteError,
                 fmt::format("rank {}: rank {} has not confirmed within {:.1f} s that it has all "
                             "that was sent to it",
                             rank_, unheard, std::chrono::duration<double>(patience).count()));
}

void Channel::Linger() {
  ServeUntil([this] { return liveness_->everyone_left(); }, Clock::time_point::max());
  if (transport_ == nullptr) return;
  DropRequests();
  transport_->Close();
}

// True when it was enough; false at the limit, which a process that exits brings near.
bool Channel::ServeUntil(const std::function<bool()>& enough, Clock::time_point limit) {
  bool stopping = false;
  while (!enough()) {
    const Clock::time_point now = Clock::now();
    if (!stopping && stop_.raised()) {
      stopping = true;
      limit = std::min(limit, IsExiting() ? now + kExitPatience : now);
      epoll_ctl(epoll_, EPOLL_CTL_DEL, stop_.fd(), nullptr);  // it stays up; do not spin on it
    }
    if (now >= limit) return false;
    if (transport_ != nullptr && transport_->Progress()) continue;
    liveness_->Service();
    if (!enough()) Sleep(now, limit);
  }
  return true;
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

uint64_t Channel::NoteTag(int source, Note note) const {
  const uint64_t from = static_cast<uint64_t>(source) << kRankShift;
  return kPointToPoint | from | static_cast<uint64_t>(note) << Transport::kDigestBits;
}

Request Channel::Send(int peer, const void* data, size_t bytes, size_t total, bool until_taken) {
  partners_[static_cast<size_t>(peer)] = true;
  return transport_->Send(peer, Tag(rank_, Digest(bytes, total)), data, bytes, until_taken);
}

Request Channel::Receive(int peer, void* data, size_t bytes, size_t total) {
  partners_[static_cast<size_t>(peer)] = true;
  return transport_->Receive(Tag(peer, Digest(bytes, total)), Transport::kMatched, data, bytes);
}

Request Channel::SendNote(int peer, Note note, const void* data, size_t bytes) {
  return transport_->Send(peer, NoteTag(rank_, note), data, bytes, true);
}

Request Channel::ReceiveNote(int peer, Note note, void* data, size_t bytes) {
  return transport_->Receive(NoteTag(peer, note), ~uint64_t{0}, data, bytes);
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
  Sleep(now, Clock::time_point::max());
  pause.spin_until = {};
}

void Channel::CheckAll(Clock::time_point now) {
  if (stop_.raised()) {
    throw Failure(ncclInternalError, IsExiting() ? "the process exits" : "aborted");
  }
  if (liveness_ == nullptr) return;
  const bool due = now >= liveness_->next_due();
  if (due) liveness_->Service();
  if (transport_ == nullptr) return;  // broken already
  if (interrupted_) throw Failure(ncclInternalError, "the communicator was revoked");
  if (liveness_->failure()) throw *liveness_->failure();
  if (due) farewell_->Listen(*liveness_);
  CheckLostPeers(now);
  for (Call* call : calls_) {
    present_ = call;
    CheckCall(*call, now);
  }
}

void Channel::CheckLostPeers(Clock::time_point now) {
  for (const auto& [peer, since] : transport_->lost_peers()) {
    if (liveness_->HasDeparted(peer)) continue;
    liveness_->Service();  // we may learn of its goodbye, or a better reason
    farewell_->Listen(*liveness_);
    if (liveness_->failure()) throw *liveness_->failure();
    if (!liveness_->HasDeparted(peer) && now - since > kGoodbyePatience) {
      Fail(ncclRemoteError, "the connection to rank {} was lost", peer);
    }
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

void Channel::Sleep(Clock::time_point now, Clock::time_point until) {
  if (transport_ != nullptr && !transport_->Arm()) return;
  until = std::min<Clock::time_point>(until, now + std::chrono::hours(1));
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
