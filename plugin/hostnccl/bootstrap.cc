#include "bootstrap.h"

#include <poll.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "background.h"
#include "call_completion.h"
#include "fork.h"
#include "nccl_log.h"

namespace hostnccl {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds kAnswerTime{2};  // beyond the patience of who gives the answer

static_assert(sizeof(MeetingPoint) <= NCCL_UNIQUE_ID_BYTES);
static_assert(std::is_trivially_copyable_v<MeetingPoint> && std::is_trivially_copyable_v<Hello>);

// Lets callers in until `expected` ranks, from `first` on, have said hello; `expected` 0: as many
// as they say.
class AcceptLoop {
 public:
  // Accepts at a communicator's listener, among other loops.
  AcceptLoop(Listener& listener, uint64_t magic, int first, int expected, milliseconds patience)
      : AcceptLoop(listener.socket, &listener, magic, first, expected, patience) {}
  // Accepts at a meeting point of its own: the socket is closed when the loop ends.
  AcceptLoop(Socket& socket, uint64_t magic, milliseconds patience)
      : AcceptLoop(socket, nullptr, magic, 0, 0, patience) {}

  // Waits without end for the first caller when `limit` is the farthest time; from then on at most
  // `patience`. The map is keyed by rank.
  std::map<int, Caller> run(Limit limit) {
    try {
      begin();
      while (expected_ == 0 || static_cast<int>(callers_.size()) < expected_) {
        poll_once(limit);
        if (expected_ != 0 && !timed_) {
          timed_ = true;
          limit.deadline = std::min(limit.deadline, Clock::now() + patience_);
        }
      }
    } catch (const Failure& failure) {
      end();  // first: who is notified may call again at once
      for (auto& [rank, caller] : callers_) notify(caller, failure);
      throw;
    }
    end();
    return std::move(callers_);
  }

 private:
  AcceptLoop(Socket& socket, Listener* listener, uint64_t magic, int first, int expected,
             milliseconds patience)
      : socket_(socket),
        listener_(listener),
        magic_(magic),
        first_(first),
        expected_(expected),
        patience_(patience) {}

  void begin() {
    if (listener_ == nullptr) return;
    unidentified_.swap(listener_->unidentified);
    std::deque<Caller> ours;
    for (Caller& caller : std::exchange(listener_->early, {})) {
      (caller.hello.magic == magic_ ? ours : listener_->early).push_back(std::move(caller));
    }
    for (Caller& caller : ours) admit(std::move(caller));
  }

  void end() {
    if (listener_ == nullptr) return socket_.close();
    listener_->past.insert(magic_);
    // Drops the oldest silent connections, which hold the program's descriptors as long as the
    // listener lives.
    while (unidentified_.size() > kMaxKept) unidentified_.pop_front();
    listener_->unidentified = std::move(unidentified_);
  }

  static void notify(Caller& caller, const Failure& failure) {
    try {
      caller.socket.send_failure(failure, {Clock::now() + std::chrono::seconds(1)});
    } catch (const Failure&) {  // it has gone meanwhile
    }
  }

  void poll_once(const Limit& limit) {
    if (limit.stop->raised()) fail(ncclInternalError, "aborted");
    if (Clock::now() >= limit.deadline) {
      fail(ncclSystemError, "rank {} did not arrive in time{}", missing(),
           no_room_.empty() ? "" : " (" + no_room_ + ")");
    }
    std::vector<pollfd> fds = {{socket_.fd(), POLLIN, 0}, {limit.stop->fd(), POLLIN, 0}};
    for (const Socket& socket : unidentified_) fds.push_back({socket.fd(), POLLIN, 0});
    poll(fds.data(), fds.size(), 100);
    for (size_t i = unidentified_.size(); i-- > 0;) {
      if (fds[i + 2].revents != 0) greet(i);
    }
    // Who had said something was greeted: what makes room is silent.
    if (unidentified_.size() >= max_unidentified_) unidentified_.pop_front();
    while (unidentified_.size() < max_unidentified_) {
      int no_room = 0;
      Socket socket = socket_.try_accept(&no_room);
      if (no_room != 0) return make_room(no_room);
      if (!socket.open()) return;
      socket.wake_by(sizeof(Hello));
      unidentified_.push_back(std::move(socket));
    }
  }

  // Who waits is let in the next time. Where nobody can go, the program may close something.
  void make_room(int error) {
    if (!unidentified_.empty()) return unidentified_.pop_front();
    if (listener_ != nullptr && !listener_->early.empty()) return listener_->early.pop_front();
    if (no_room_.empty()) {
      no_room_ = "accept: " + std::generic_category().message(error);
      log(LogLevel::kWarn, kNoRank, "bootstrap: {}; a caller has to wait", no_room_);
    }
    std::this_thread::sleep_for(milliseconds(10));
  }

  void greet(size_t index) {
    Hello hello;
    const Socket::Received got = unidentified_[index].try_receive(&hello, sizeof(hello));
    if (got == Socket::Received::kNothingYet) return;
    Socket socket = std::move(unidentified_[index]);
    unidentified_.erase(unidentified_.begin() + static_cast<std::ptrdiff_t>(index));
    if (got == Socket::Received::kEnd) return;
    Caller caller{std::move(socket), hello};
    if (hello.magic == magic_) return admit(std::move(caller));
    if (listener_ == nullptr || listener_->past.contains(hello.magic)) {
      log(LogLevel::kInfo, kNoRank, "bootstrap: dropped a caller with a foreign magic");
      return;
    }
    if (listener_->early.size() >= max_unidentified_) listener_->early.pop_front();
    listener_->early.push_back(std::move(caller));
  }

  void admit(Caller caller) {
    caller.socket.wake_by(1);  // other messages follow
    const Hello& hello = caller.hello;
    if (size_ == 0) size_ = hello.size;
    if (expected_ == 0) expected_ = hello.size;
    try {
      check(hello);
    } catch (const Failure& failure) {
      notify(caller, failure);
      throw;
    }
    callers_.emplace(hello.rank, std::move(caller));
  }

  // Checks one more caller.
  void check(const Hello& hello) const {
    if (hello.size != size_) {
      fail(ncclInvalidUsage, "rank {} says nranks is {}, others say {}", hello.rank, hello.size,
           size_);
    }
    if (callers_.count(hello.rank) != 0) {
      fail(ncclInvalidUsage, "rank {} was given to two callers", hello.rank);
    }
  }

  std::string missing() const {
    std::string missing;
    for (int rank = first_; rank < first_ + expected_; ++rank) {
      if (callers_.count(rank) == 0)
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    return missing.empty() ? "any" : missing;
  }

  // A part of the descriptors that the process may have.
  static size_t max_unidentified() {
    rlimit descriptors{};
    getrlimit(RLIMIT_NOFILE, &descriptors);
    return static_cast<size_t>(std::clamp<rlim_t>(descriptors.rlim_cur / 4, 1, 1024));
  }

  static constexpr size_t kMaxKept = 16;
  const size_t max_unidentified_ = max_unidentified();
  Socket& socket_;
  Listener* const listener_;  // null: a meeting point
  const uint64_t magic_;
  const int first_;
  int expected_;
  const milliseconds patience_;
  int size_ = 0;
  bool timed_ = false;
  std::deque<Socket> unidentified_;
  std::string no_room_;  // why a caller had to wait; empty: none had to
  std::map<int, Caller> callers_;
};

// The meeting point: waits for all ranks, then tells each where rank 0 listens.
void host_meeting(Socket& listener, uint64_t magic, milliseconds patience, const Flag& stop) {
  AcceptLoop accept_loop(listener, magic, patience);
  std::map<int, Caller> callers = accept_loop.run({Clock::time_point::max(), &stop});
  const Address hub = callers.at(0).hello.listener;
  const std::string text(reinterpret_cast<const char*>(&hub), sizeof(hub));
  for (auto& [rank, caller] : callers) {
    caller.socket.send_text(text, {Clock::now() + patience, &stop});
  }
}

struct Meeting {
  std::shared_ptr<Flag> stop = std::make_shared<Flag>();
  std::shared_ptr<Completion> over = std::make_shared<Completion>();  // its port is free again
};

// Those of ids that were made here, until their ranks have met.
struct OpenIds {
  std::mutex mutex;
  std::map<uint64_t, std::weak_ptr<Flag>> stops;  // by magic
};

Meeting host_meeting_in_background(Socket listener, uint64_t magic, milliseconds patience) {
  Meeting meeting;
  auto socket = std::make_shared<Socket>(std::move(listener));
  run_in_background(meeting.stop, [=] {
    try {
      host_meeting(*socket, magic, patience, *meeting.stop);
    } catch (const std::exception& failure) {
      log(LogLevel::kInfo, kNoRank, "bootstrap: meeting ended: {}", failure.what());
    }
    socket->close();
    meeting.over->finish({});
  });
  return meeting;
}

uint64_t random_magic() {
  uint64_t magic = 0;
  if (getrandom(&magic, sizeof(magic), 0) != sizeof(magic)) fail_system("getrandom");
  return magic;
}

// Magic of NCCL_COMM_ID, which every rank derives without having spoken to another.
uint64_t magic_of(const std::string& text) { return mixed_with(0xcbf29ce484222325, text); }

Hello hello_of(const Membership& self, const Listener& listener) {
  return {self.magic, self.rank, self.size, listener.address};
}

}  // namespace

MeetingPoint from_unique_id(const ncclUniqueId& id) {
  MeetingPoint point;
  std::memcpy(&point, id.internal, sizeof(point));
  if (!point.address.valid()) {
    fail(ncclInvalidArgument, "the unique id was not made by ncclGetUniqueId of this library");
  }
  return point;
}

ncclUniqueId make_unique_id(const Settings& settings) {
  MeetingPoint point;
  if (!settings.comm_id.empty()) {
    point.address = parse_address(settings.comm_id);
    point.magic = magic_of(settings.comm_id);
  } else {
    Listener listener = Listener::open(settings);
    point = {random_magic(), listener.address};
    OpenIds& open = of_process<OpenIds>();
    const std::lock_guard lock(open.mutex);
    std::erase_if(open.stops, [](const auto& stop) { return stop.second.expired(); });
    open.stops[point.magic] =
        host_meeting_in_background(std::move(listener.socket), point.magic, settings.timeout).stop;
  }
  ncclUniqueId id;
  std::memset(&id, 0, sizeof(id));
  std::memcpy(id.internal, &point, sizeof(point));
  return id;
}

void close_meeting(const ncclUniqueId& id) {
  OpenIds& open = of_process<OpenIds>();
  const std::lock_guard lock(open.mutex);
  const auto own = open.stops.find(from_unique_id(id).magic);
  const auto stop = own != open.stops.end() ? own->second.lock() : nullptr;
  if (stop != nullptr) stop->raise();
}

Listener Listener::open(const Settings& settings) {
  Listener listener;
  listener.socket = Socket::listen(local_address(settings.interface));
  listener.address = listener.socket.bound();
  return listener;
}

uint64_t mixed_with(uint64_t hash, std::string_view bytes) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

milliseconds patience_of(const Membership& self, const Settings& settings) {
  return self.rank == 0 ? settings.timeout : settings.timeout + kAnswerTime;
}

Star Star::join(const MeetingPoint& point, const Membership& self, Listener& listener,
                const Settings& settings, const Flag& stop) {
  const bool hosts =
      !settings.comm_id.empty() && self.rank == 0 && point.magic == magic_of(settings.comm_id);
  if (!hosts) return meet(point, self, listener, settings, stop);
  // Limit for rank 0 to host the meeting of an NCCL_COMM_ID, an id made by arithmetic alone. The
  // meeting before may be about to end.
  const Limit limit{Clock::now() + std::chrono::seconds(1), &stop};
  const Meeting meeting = host_meeting_in_background(Socket::listen(point.address, limit),
                                                     point.magic, settings.timeout);
  try {
    return meet(point, self, listener, settings, stop);
  } catch (...) {  // the next one there is not to meet those of this one
    meeting.stop->raise();
    meeting.over->wait();
    throw;
  }
}

Star Star::meet(const MeetingPoint& point, const Membership& self, Listener& listener,
                const Settings& settings, const Flag& stop) {
  // The meeting's answer, too, knows who is missing.
  const Limit limit{Clock::now() + settings.timeout + kAnswerTime, &stop};
  const Hello hello = hello_of(self, listener);
  Socket socket = Socket::connect(point.address, {Clock::now() + settings.timeout, &stop});
  socket.send(&hello, sizeof(hello), limit);
  const std::string answer = socket.receive_text(limit);
  Address hub;
  if (answer.size() != sizeof(hub)) fail(ncclInternalError, "malformed bootstrap answer");
  std::memcpy(&hub, answer.data(), sizeof(hub));
  return join_hub(hub, self, listener, settings, stop);
}

Star Star::join_hub(const Address& hub, const Membership& self, Listener& listener,
                    const Settings& settings, const Flag& stop) {
  const Limit limit{Clock::now() + settings.timeout, &stop};
  Star star(self);
  if (self.rank == 0) {
    star.links_.resize(static_cast<size_t>(self.size));
    if (self.size == 1) return star;
    // The hub does not call itself.
    AcceptLoop accept_loop(listener, self.magic, 1, self.size - 1, settings.timeout);
    for (auto& [rank, caller] : accept_loop.run(limit)) {
      if (rank < 1 || rank >= self.size) fail(ncclInvalidUsage, "rank {} is out of range", rank);
      star.links_[static_cast<size_t>(rank)] = std::move(caller.socket);
    }
  } else {
    const Hello hello = hello_of(self, listener);
    star.links_.push_back(Socket::connect(hub, limit));
    star.links_[0].send(&hello, sizeof(hello), limit);
  }
  return star;
}

std::vector<std::string> Star::all_gather(const std::string& own, const Limit& limit) {
  return self_.rank == 0 ? gather(own, limit) : take_part(own, limit);
}

std::vector<std::string> Star::take_part(const std::string& own, const Limit& limit) {
  std::vector<std::string> all(static_cast<size_t>(self_.size));
  links_[0].send_text(own, limit);
  for (std::string& text : all) text = links_[0].receive_text(limit);
  return all;
}

std::vector<std::string> Star::gather(const std::string& own, const Limit& limit) {
  std::vector<std::string> all(links_.size());
  all[0] = own;
  size_t peer = 1, answered = 1;
  try {
    for (; peer < all.size(); ++peer) all[peer] = links_[peer].receive_text(limit);
    for (; answered < all.size(); ++answered) {
      peer = answered;
      for (const std::string& text : all) links_[peer].send_text(text, limit);
    }
    return all;
  } catch (const Failure& unnamed) {
    const Failure failure(unnamed.code(), fmt::format("rank {}: {}", peer, unnamed.text()));
    for (; answered < all.size(); ++answered) notify(answered, failure, limit);
    throw failure;
  }
}

void Star::require_links() const {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].open() && links_[i].has_ended())
      fail(ncclRemoteError, "rank {}: connection closed by the other side", i);
  }
}

void Star::notify(size_t peer, const Failure& failure, const Limit& limit) {
  try {
    links_[peer].send_failure(failure, limit);
  } catch (const Failure& gone) {
    log(LogLevel::kInfo, self_.rank, "bootstrap: rank {} cannot be notified of a failure: {}", peer,
        gone.text());
  }
}

}  // namespace hostnccl
