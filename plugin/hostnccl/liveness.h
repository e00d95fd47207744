// Who is alive: the bootstrap's star, kept open for the communicator's life.
//
// Independent of the data transport. A peer whose connection ends without a goodbye is dead at
// once; one that says nothing for the timeout is taken for dead, and everybody beats at a quarter
// of that. The hub passes a death on to everyone. A failure that a rank detects itself (a
// mismatched call, say) travels the same way, so that no rank waits for one that has given up.
//
// The ranks also compare what they are doing when a call takes long: see Position.
//
// Not thread safe: belongs to the communicator's thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "failure.h"
#include "socket.h"

namespace hostnccl {

// Collective that a rank is in: its number on the communicator and a digest of what all ranks must
// agree on. Equal numbers with different digests would wait for each other without end.
struct Position {
  uint64_t number = 0;
  uint64_t digest = 0;
  std::string text;
};

class Liveness {
 public:
  Liveness(int rank, int size, std::vector<Socket> links, std::chrono::milliseconds timeout);

  // Sends a beat when due, reads what has come, looks for the silent. Cheap when nothing is due.
  void service();
  Clock::time_point next_due() const { return next_beat_; }
  std::vector<int> fds() const;  // readable: call service
  // Called with each of them before it is closed, but not at our own end.
  void before_close(std::function<void(int fd)> action) { before_close_ = std::move(action); }

  // The first failure that anyone reported or that we saw.
  const Outcome& failure() const { return failure_; }

  void report_failure(const Failure& failure);     // ours: tells the others
  void record(uint64_t number, uint64_t digest);   // we begin that collective
  void report_position(const Position& position);  // we have been in it for long
  void say_goodbye(uint64_t collectives_done);     // orderly: we end after that many collectives

  // Notes that a rank has left in good order, or was lost in no collective.
  void depart(int rank, uint64_t collectives_done);
  // A peer that left in good order and took part in fewer than `number` collectives, or -1.
  int departed_before(uint64_t number) const;
  bool has_departed(int rank) const { return departed_.count(rank) != 0; }
  // Everybody has said goodbye or is gone: nobody needs us any more.
  bool everyone_left() const { return everyone_left_; }

 private:
  enum class Kind : int32_t { kBeat, kGoodbye, kEveryoneLeft, kFailure, kPosition };
  struct Notice {
    Kind kind = Kind::kBeat;
    int32_t rank = 0;
    uint64_t number = 0;
    uint64_t digest = 0;
    char text[224] = {};
  };
  struct Link {
    int rank;  // of the other side
    Socket socket;
    Clock::time_point last_heard;
  };

  bool is_hub() const { return rank_ == 0; }
  Notice make(Kind kind, const std::string& text = {}) const;
  void notify(const Notice& notice, int except = -1);
  void read(Link& link);
  void handle(const Notice& notice);
  void lose(Link& link, const std::string& cause);
  void compare(int rank, const Position& position);
  void check_everyone_left();

  const int rank_;
  const int size_;
  const std::chrono::milliseconds timeout_;
  std::vector<Link> links_;
  std::function<void(int fd)> before_close_;
  Clock::time_point next_beat_;
  Outcome failure_;
  std::map<int, uint64_t> departed_;   // rank -> collectives it took part in
  std::map<int, Position> positions_;  // the latest report of each rank
  struct Recorded {
    uint64_t number = 0;
    uint64_t digest = 0;
  };
  std::array<Recorded, 64> recorded_;  // our latest, at number % 64
  bool everyone_left_ = false;
};

}  // namespace hostnccl
