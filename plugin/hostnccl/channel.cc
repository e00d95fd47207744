#include "channel.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "background.h"
#include "nccl_log.h"
#include "shutdown_handshake.h"
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
  if (epoll_ < 0) fail_system("epoll_create1");
  watch(wake_.fd(), kWake);
  watch(stop_.fd(), kStop);
}

Channel::~Channel() { ::close(epoll_); }

void Channel::watch(int fd, Source source) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u32 = source;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) fail_system("epoll_ctl");
}

// Before it is closed: while a forked child has a copy, epoll would go on to report it.
void Channel::unwatch(int fd) { epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

void Channel::open(int rank, int size, milliseconds timeout, std::unique_ptr<Transport> transport,
                   std::unique_ptr<Liveness> liveness) {
  rank_ = rank;
  size_ = size;
  timeout_ = timeout;
  transport_ = std::move(transport);
  liveness_ = std::move(liveness);
  traffic_ = std::make_unique<Traffic>(*this);
  shutdown_handshake_ = std::make_unique<ShutdownHandshake>(*this);
  partners_.resize(static_cast<size_t>(size));
  watch(transport_->event_fd(), kTransport);
  for (const int fd : liveness_->fds()) watch(fd, kLiveness);
  liveness_->before_close([this](int fd) { unwatch(fd); });
}

void Channel::break_off(const Failure* failure) {
  if (failure != nullptr && liveness_ != nullptr && !liveness_->failure() && !is_exiting()) {
    liveness_->report_failure(*failure);
    // The others should stop first: UCX 1.13 may abort a process whose connections end while it
    // moves data over them (assertions in tcp_iface.c and ucp_worker.c).
    std::this_thread::sleep_for(kHeadStart);
  }
  drop_requests();
  if (transport_ != nullptr) unwatch(transport_->event_fd());
  transport_.reset();
  calls_.clear();
  present_ = nullptr;
}

void Channel::close() {
  drop_requests();
  transport_.reset();
  liveness_.reset();
}

void Channel::drop_requests() {
  traffic_.reset();
  if (shutdown_handshake_ != nullptr) shutdown_handshake_->drop();
}

void Channel::give_up(const Failure& failure) {
  {
    std::lock_guard lock(failing_);
    if (!found_) found_ = failure;
  }
  fails_ = true;
  wake_.raise();
}

Outcome Channel::take_leave(uint64_t collectives_done) {
  liveness_->say_goodbye(collectives_done);
  if (transport_ == nullptr) return {};  // revoked: nothing is on its way
  for (int peer = 0; peer < size_; ++peer) {
    if (partners_[static_cast<size_t>(peer)]) shutdown_handshake_->send(peer, collectives_done);
  }
  // Who is silent is found out after the timeout; here it beats, and yet does not take what comes.
  const auto patience = 2 * timeout_;
  int unconfirmed = -1;
  const bool in_time = serve_until(
      [&] {
        unconfirmed = shutdown_handshake_->unconfirmed(*liveness_);
        return unconfirmed < 0 || liveness_->failure();
      },
      Clock::now() + patience);
  if (unconfirmed < 0 || stop_.raised()) return {};
  if (in_time) {
    log(LogLevel::kInfo, rank_, "leaves, though rank {} may not have all that was sent to it: {}",
        unconfirmed, liveness_->failure()->text());
    return {};
  }
  return Failure(ncclRemoteError,
                 fmt::format("rank {}: rank {} has not confirmed within {:.1f} s that it has all "
                             "that was sent to it",
                             rank_, unconfirmed, std::chrono::duration<double>(patience).count()));
}

void Channel::linger() {
  serve_until([this] { return liveness_->everyone_left(); }, Clock::time_point::max());
  if (transport_ == nullptr) return;
  drop_requests();
  transport_->close();
}

// True when it was enough; false at the limit, which a process that exits brings near.
bool Channel::serve_until(const std::function<bool()>& enough, Clock::time_point limit) {
  bool stopping = false;
  while (!enough()) {
    const Clock::time_point now = Clock::now();
    if (!stopping && stop_.raised()) {
      stopping = true;
      limit = std::min(limit, is_exiting() ? now + kExitPatience : now);
      unwatch(stop_.fd());  // it stays up; do not spin on it
    }
    if (now >= limit) return false;
    if (transport_ != nullptr && transport_->progress()) continue;
    liveness_->service();
    if (!enough()) sleep(now, limit);
  }
  return true;
}

void Channel::begin(Call& call) {
  if (call.number != 0) liveness_->record(call.number, call.digest);
  call.last_progress = Clock::now();
  calls_.push_back(&call);
  present_ = &call;
}

void Channel::end(const Call& call) {
  std::erase(calls_, &call);
  present_ = calls_.empty() ? nullptr : calls_.front();
}

uint64_t Channel::digest(size_t bytes, size_t total) const {
  uint64_t digest = present_->number != 0 ? present_->digest : 0;
  digest = (digest ^ bytes) * 0x9e3779b97f4a7c15;
  digest = (digest ^ digest >> 32 ^ total) * 0x9e3779b97f4a7c15;
  return (digest ^ digest >> 32) & ~Transport::kMatched;
}

uint64_t Channel::tag(int source, uint64_t digest) const {
  const uint64_t number = (present_->number & kNumberMask) << Transport::kDigestBits;
  const uint64_t from = static_cast<uint64_t>(source) << kRankShift;
  return (present_->number == 0 ? kPointToPoint : 0) | from | number | digest;
}

uint64_t Channel::note_tag(int source, Note note) const {
  const uint64_t from = static_cast<uint64_t>(source) << kRankShift;
  return kPointToPoint | from | static_cast<uint64_t>(note) << Transport::kDigestBits;
}

Request Channel::send(int peer, const void* data, size_t bytes, size_t total, bool until_taken) {
  partners_[static_cast<size_t>(peer)] = true;
  return transport_->send(peer, tag(rank_, digest(bytes, total)), data, bytes, until_taken);
}

Request Channel::receive(int peer, void* data, size_t bytes, size_t total) {
  partners_[static_cast<size_t>(peer)] = true;
  return transport_->receive(tag(peer, digest(bytes, total)), Transport::kMatched, data, bytes);
}

Request Channel::send_note(int peer, Note note, const void* data, size_t bytes) {
  return transport_->send(peer, note_tag(rank_, note), data, bytes, true);
}

Request Channel::receive_note(int peer, Note note, void* data, size_t bytes) {
  return transport_->receive(note_tag(peer, note), ~uint64_t{0}, data, bytes);
}

void Channel::relax(bool moved, Pause& pause) {
  constexpr unsigned kCheckEvery = 64;  // also while progress never pauses
  if (moved && ++pause.rounds % kCheckEvery != 0) return;
  const Clock::time_point now = Clock::now();
  // Point-to-point calls count their own messages: those of another are no sign of hope.
  for (Call* call : calls_) {
    if (moved && call->number != 0) call->last_progress = now;
  }
  check_all(now);
  if (moved || pause.spin_until == Clock::time_point{}) pause.spin_until = now + kSpin;
  if (now < pause.spin_until) return;
  sleep(now, Clock::time_point::max());
  pause.spin_until = {};
}

void Channel::check_all(Clock::time_point now) {
  if (stop_.raised()) {
    throw Failure(ncclInternalError, is_exiting() ? "the process exits" : "aborted");
  }
  if (liveness_ == nullptr) return;
  const bool due = now >= liveness_->next_due();
  if (due) liveness_->service();
  if (transport_ == nullptr) return;  // broken already
  if (interrupted_) throw Failure(ncclInternalError, "the communicator was revoked");
  if (fails_) {
    std::lock_guard lock(failing_);
    throw *found_;
  }
  if (liveness_->failure()) throw *liveness_->failure();
  if (due) shutdown_handshake_->receive(*liveness_);
  check_lost_peers(now);
  for (Call* call : calls_) {
    present_ = call;
    check_call(*call, now);
  }
}

void Channel::check_lost_peers(Clock::time_point now) {
  for (const auto& [peer, since] : transport_->lost_peers()) {
    if (liveness_->has_departed(peer)) continue;
    liveness_->service();  // we may learn of its goodbye, or a better reason
    shutdown_handshake_->receive(*liveness_);
    if (liveness_->failure()) throw *liveness_->failure();
    if (!liveness_->has_departed(peer) && now - since > kGoodbyePatience) {
      fail(ncclRemoteError, "the connection to rank {} was lost", peer);
    }
  }
}

// Is there hope that this call ends?
void Channel::check_call(Call& call, Clock::time_point now) {
  if (call.number != 0) {
    if (const int peer = liveness_->departed_before(call.number); peer >= 0) {
      fail(ncclRemoteError, "rank {} has left the communicator and does not take part", peer);
    }
    if (!call.reported && now - call.last_progress > kReportAfter) {
      call.reported = true;
      liveness_->report_position({call.number, call.digest, call.describe()});
    }
  } else if (now - call.last_progress > timeout_) {
    for (int peer = 0; peer < size_; ++peer) {
      if (liveness_->has_departed(peer) && traffic_->waits_for(peer, call)) {
        fail(ncclRemoteError, "rank {} has left the communicator, {} waits for it", peer,
             call.describe());
      }
    }
  }
}

void Channel::sleep(Clock::time_point now, Clock::time_point until) {
  if (transport_ != nullptr && !transport_->arm()) return;
  until = std::min<Clock::time_point>(until, now + std::chrono::hours(1));
  if (liveness_ != nullptr) until = std::min(until, liveness_->next_due());
  for (const Call* call : calls_) {
    if (!call->reported) until = std::min(until, now + kReportAfter);
  }
  const auto wait = std::chrono::ceil<milliseconds>(until - now).count();
  epoll_event events[16];
  const int count =
      epoll_wait(epoll_, events, std::size(events), static_cast<int>(std::max<int64_t>(0, wait)));
  if (count < 0 && errno != EINTR) fail_system("epoll_wait");
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u32 == kWake) wake_.lower();
    if (events[i].data.u32 == kLiveness) liveness_->service();
  }
}

char* Channel::scratch(size_t bytes) {
  if (scratch_.size() < bytes) scratch_.resize(bytes);
  return scratch_.data();
}

}  // namespace hostnccl
