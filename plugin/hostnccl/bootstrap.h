// How the ranks of a communicator find each other: a small exchange over TCP.
//
//   unique id  ->  meeting point   every rank says hello, learns where rank 0 (the hub) listens
//   hub        ->  star            one connection per rank to the hub, kept for the liveness watch
//   star       ->  all-gather      of whatever each rank has to tell (its transport address)
//
// Every hello carries the id's random magic; a meeting point drops a caller with another one. A
// rank that does not come ends in a failure that names it.
#pragma once

#include <nccl.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "env.h"
#include "socket.h"

namespace hostnccl {

// Content of an ncclUniqueId: where to meet, and the magic.
struct MeetingPoint {
  uint64_t magic = 0;
  Address address;
};

MeetingPoint from_unique_id(const ncclUniqueId& id);

// ncclGetUniqueId. Without NCCL_COMM_ID the calling process hosts the meeting point in the
// background; with it, rank 0 will.
ncclUniqueId make_unique_id(const Settings& settings);

// The meeting point of an id that nobody will call; it may be another process's.
void close_meeting(const ncclUniqueId& id);

struct Hello {
  uint64_t magic;
  int32_t rank;
  int32_t size;
  Address listener;
};

struct Caller {
  Socket socket;
  Hello hello;
};

// Address at which this rank can be called, open for the communicator's life: rank 0's is the hub,
// and the communicators shrunk from this one start from it, one after another.
struct Listener {
  Socket socket;
  Address address;
  // Between two of them. A rank may have given up, or never begun, the one that others still wait
  // for, and call for the next one.
  std::deque<Socket> unidentified;  // have not said hello yet
  std::deque<Caller> early;         // for one that has not begun here
  std::set<uint64_t> past;          // the magics of those that are over here
  static Listener open(const Settings& settings);
};

struct Membership {
  uint64_t magic = 0;
  int rank = 0;
  int size = 0;
};

// A magic and more bytes that tell communicators apart (FNV-1a).
uint64_t mixed_with(uint64_t hash, std::string_view bytes);

// Time that a rank waits for the others. The hub knows who is missing: its answer comes before the
// others give up.
std::chrono::milliseconds patience_of(const Membership& self, const Settings& settings);

// The connections of one rank after the bootstrap: on the hub links[r] leads to rank r (its own is
// closed), elsewhere links[0] leads to the hub.
class Star {
 public:
  // Meets at `point` first to learn the hub's address.
  static Star join(const MeetingPoint& point, const Membership& self, Listener& listener,
                   const Settings& settings, const Flag& stop);
  // The hub's address is known already, as it is for a split. `listener`: where the hub receives.
  static Star join_hub(const Address& hub, const Membership& self, Listener& listener,
                       const Settings& settings, const Flag& stop);

  std::vector<std::string> all_gather(const std::string& own, const Limit& limit);
  // Throws when another rank has gone meanwhile, as far as this rank is connected to it.
  void require_links() const;
  std::vector<Socket> take_links() { return std::move(links_); }

 private:
  explicit Star(const Membership& self) : self_(self) {}
  static Star meet(const MeetingPoint& point, const Membership& self, Listener& listener,
                   const Settings& settings, const Flag& stop);
  std::vector<std::string> gather(const std::string& own, const Limit& limit);  // on the hub
  std::vector<std::string> take_part(const std::string& own, const Limit& limit);
  void notify(size_t peer, const Failure& failure, const Limit& limit);
  Membership self_;
  std::vector<Socket> links_;
};

}  // namespace hostnccl
