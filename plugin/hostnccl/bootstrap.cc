#include "bootstrap.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <type_traits>
#include <utility>

#include "background.h"
#include "log.h"

namespace hostnccl {
namespace {

using std::chrono::milliseconds;

struct Hello {
  uint64_t magic;
  int32_t rank;
  int32_t size;
  Address door;
};

static_assert(sizeof(MeetingPoint) <= NCCL_UNIQUE_ID_BYTES);
static_assert(std::is_trivially_copyable_v<MeetingPoint> && std::is_trivially_copyable_v<Hello>);

struct Caller {
  Socket socket;
  Hello hello;
};

// Lets callers in until `expected` ranks have said hello; `expected` 0: as many as they say.
class Reception {
 public:
  Reception(Socket& listener, uint64_t magic, int expected, milliseconds patience)
      : listener_(listener), magic_(magic), expected_(expected), patience_(patience) {}

  // Waits without end for the first caller when `limit` is the farthest time; from then on at most
  // `patience`. The map is keyed by rank.
  std::map<int, Caller> Run(Limit limit) {
    try {
      while (expected_ == 0 || static_cast<int>(callers_.size()) < expected_) {
        PollOnce(limit);
        if (expected_ != 0 && !timed_) {
          timed_ = true;
          limit.deadline = std::min(limit.deadline, Clock::now() + patience_);
        }
      }
    } catch (const Failure& failure) {
      TellEveryone(failure);
      throw;
    }
    return std::move(callers_);
  }

  void TellEveryone(const Failure& failure) {
    for (auto& [rank, caller] : callers_) {
      try {
        caller.socket.SendFailure(failure, {Clock::now() + std::chrono::seconds(1)});
      } catch (const Failure&) {  // it has gone meanwhile
      }
    }
  }

 private:
  void PollOnce(const Limit& limit) {
    if (limit.stop->raised()) Fail(ncclInternalError, "aborted");
    if (Clock::now() >= limit.deadline) {
      Fail(ncclSystemError, "rank {} did not arrive in time", Missing());
    }
    std::vector<pollfd> fds = {{listener_.fd(), POLLIN, 0}, {limit.stop->fd(), POLLIN, 0}};
    for (const Socket& socket : strangers_) fds.push_back({socket.fd(), POLLIN, 0});
    poll(fds.data(), fds.size(), 100);
    for (size_t i = strangers_.size(); i-- > 0;) {
      if (fds[i + 2].revents != 0) Greet(i);
    }
    for (Socket socket = listener_.TryAccept(); socket.open(); socket = listener_.TryAccept()) {
      if (strangers_.size() >= kMaxStrangers) strangers_.pop_front();
      strangers_.push_back(std::move(socket));
    }
  }

  void Greet(size_t index) {
    Hello hello;
    const Socket::Received got = strangers_[index].TryReceive(&hello, sizeof(hello));
    if (got == Socket::Received::kNothingYet) return;
    Socket socket = std::move(strangers_[index]);
    strangers_.erase(strangers_.begin() + static_cast<std::ptrdiff_t>(index));
    if (got == Socket::Received::kEnd) return;
    if (hello.magic != magic_) {
      Log(LogLevel::kInfo, kNoRank, "bootstrap: dropped a caller with a foreign magic");
      return;
    }
    Admit({std::move(socket), hello});
  }

  void Admit(Caller caller) {
    const Hello hello = caller.hello;
    if (size_ == 0) size_ = hello.size;
    if (expected_ == 0) expected_ = hello.size;
    const bool twice = !callers_.emplace(hello.rank, std::move(caller)).second;
    if (hello.size != size_) {
      Fail(ncclInvalidUsage, "rank {} says nranks is {}, others say {}", hello.rank, hello.size,
           size_);
    }
    if (twice) Fail(ncclInvalidUsage, "rank {} was given to two callers", hello.rank);
  }

  std::string Missing() const {
    std::string missing;
    // The hub does not call itself: it expects one caller fewer than there are ranks.
    for (int rank = expected_ < size_ ? 1 : 0; rank < std::max(size_, expected_); ++rank) {
      if (callers_.count(rank) == 0)
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    return missing.empty() ? "any" : missing;
  }

  static constexpr size_t kMaxStrangers = 1024;
  Socket& listener_;
  const uint64_t magic_;
  int expected_;
  const milliseconds patience_;
  int size_ = 0;
  bool timed_ = false;
  std::deque<Socket> strangers_;
  std::map<int, Caller> callers_;
};

// The meeting point: waits for all ranks, then tells each where rank 0 listens.
void HostMeeting(Socket& listener, uint64_t magic, milliseconds patience, const Flag& stop) {
  Reception reception(listener, magic, 0, patience);
  std::map<int, Caller> callers = reception.Run({Clock::time_point::max(), &stop});
  const Address hub = callers.at(0).hello.door;
  const std::string text(reinterpret_cast<const char*>(&hub), sizeof(hub));
  for (auto& [rank, caller] : callers) {
    caller.socket.SendText(text, {Clock::now() + patience, &stop});
  }
}

void HostMeetingInBackground(Socket listener, uint64_t magic, milliseconds patience) {
  auto stop = std::make_shared<Flag>();
  auto socket = std::make_shared<Socket>(std::move(listener));
  RunInBackground(stop, [=] {
    try {
      HostMeeting(*socket, magic, patience, *stop);
    } catch (const std::exception& failure) {
      Log(LogLevel::kInfo, kNoRank, "bootstrap: meeting ended: {}", failure.what());
    }
  });
}

uint64_t RandomMagic() {
  uint64_t magic = 0;
  if (getrandom(&magic, sizeof(magic), 0) != sizeof(magic)) FailSystem("getrandom");
  return magic;
}

// With NCCL_COMM_ID every rank must arrive at the same magic without having spoken.
uint64_t MagicOf(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Hello HelloOf(const Membership& self, const Doorway& door) {
  return {self.magic, self.rank, self.size, door.address};
}

}  // namespace

MeetingPoint FromUniqueId(const ncclUniqueId& id) {
  MeetingPoint point;
  std::memcpy(&point, id.internal, sizeof(point));
  if (!point.address.valid()) {
    Fail(ncclInvalidArgument, "the unique id was not made by ncclGetUniqueId of this library");
  }
  return point;
}

ncclUniqueId MakeUniqueId(const Settings& settings) {
  MeetingPoint point;
  if (!settings.comm_id.empty()) {
    point.address = ParseAddress(settings.comm_id);
    point.magic = MagicOf(settings.comm_id);
  } else {
    Doorway door = Doorway::Open(settings);
    point = {RandomMagic(), door.address};
    HostMeetingInBackground(std::move(door.listener), point.magic, settings.timeout);
  }
  ncclUniqueId id;
  std::memset(&id, 0, sizeof(id));
  std::memcpy(id.internal, &point, sizeof(point));
  return id;
}

Doorway Doorway::Open(const Settings& settings) {
  Doorway door;
  door.listener = Socket::Listen(LocalAddress(settings.interface));
  door.address = door.listener.Bound();
  return door;
}

Star Star::Join(const MeetingPoint& point, const Membership& self, Doorway& door,
                const Settings& settings, const Flag& stop) {
  // With NCCL_COMM_ID the id was made by arithmetic alone and rank 0 hosts the meeting.
  if (!settings.comm_id.empty() && self.rank == 0 && point.magic == MagicOf(settings.comm_id)) {
    HostMeetingInBackground(Socket::Listen(point.address), point.magic, settings.timeout);
  }
  // A little longer than the meeting's own patience, so that its answer, which knows who is
  // missing, comes first.
  const Limit limit{Clock::now() + settings.timeout + std::chrono::seconds(2), &stop};
  const Hello hello = HelloOf(self, door);
  Socket socket = Socket::Connect(point.address, {Clock::now() + settings.timeout, &stop});
  socket.Send(&hello, sizeof(hello), limit);
  const std::string answer = socket.ReceiveText(limit);
  Address hub;
  if (answer.size() != sizeof(hub)) Fail(ncclInternalError, "malformed bootstrap answer");
  std::memcpy(&hub, answer.data(), sizeof(hub));
  return JoinHub(hub, self, door, settings, stop);
}

Star Star::JoinHub(const Address& hub, const Membership& self, Doorway& door,
                   const Settings& settings, const Flag& stop) {
  const Limit limit{Clock::now() + settings.timeout, &stop};
  Star star(self);
  if (self.rank == 0) {
    star.links_.resize(static_cast<size_t>(self.size));
    if (self.size == 1) return star;
    Reception reception(door.listener, self.magic, self.size - 1, settings.timeout);
    for (auto& [rank, caller] : reception.Run(limit)) {
      if (rank < 1 || rank >= self.size) Fail(ncclInvalidUsage, "rank {} is out of range", rank);
      star.links_[static_cast<size_t>(rank)] = std::move(caller.socket);
    }
  } else {
    const Hello hello = HelloOf(self, door);
    star.links_.push_back(Socket::Connect(hub, limit));
    star.links_[0].Send(&hello, sizeof(hello), limit);
  }
  return star;
}

std::vector<std::string> Star::AllGather(const std::string& own, const Limit& limit) {
  return self_.rank == 0 ? Gather(own, limit) : TakePart(own, limit);
}

std::vector<std::string> Star::TakePart(const std::string& own, const Limit& limit) {
  std::vector<std::string> all(static_cast<size_t>(self_.size));
  links_[0].SendText(own, limit);
  for (std::string& text : all) text = links_[0].ReceiveText(limit);
  return all;
}

std::vector<std::string> Star::Gather(const std::string& own, const Limit& limit) {
  std::vector<std::string> all(links_.size());
  all[0] = own;
  size_t peer = 1, answered = 1;
  try {
    for (; peer < all.size(); ++peer) all[peer] = links_[peer].ReceiveText(limit);
    for (; answered < all.size(); ++answered) {
      peer = answered;
      for (const std::string& text : all) links_[peer].SendText(text, limit);
    }
    return all;
  } catch (const Failure& unnamed) {
    const Failure failure(unnamed.code(), fmt::format("rank {}: {}", peer, unnamed.text()));
    for (; answered < all.size(); ++answered) Tell(answered, failure, limit);
    throw failure;
  }
}

void Star::Tell(size_t peer, const Failure& failure, const Limit& limit) {
  try {
    links_[peer].SendFailure(failure, limit);
  } catch (const Failure& gone) {
    Log(LogLevel::kInfo, self_.rank, "bootstrap: rank {} cannot be told of a failure: {}", peer,
        gone.text());
  }
}

}  // namespace hostnccl
