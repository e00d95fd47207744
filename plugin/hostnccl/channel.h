// What a collective sees: messages to the other ranks, and waiting for them.
//
// Every wait also keeps the communicator alive: it makes transport progress, serves the liveness
// watch, and ends in an exception when a peer is lost or the communicator is aborted. A waiting
// thread spins for a few microseconds and then sleeps in epoll until something happens.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "flag.h"
#include "liveness.h"
#include "transport.h"

namespace hostnccl {

class ShutdownHandshake;
class Traffic;

// Call of this rank. A collective has a number, the same on all ranks, and a digest of what they
// must agree on; point-to-point calls have number 0.
struct Call {
  uint64_t number = 0;
  uint64_t digest = 0;
  std::function<std::string()> describe;

  size_t awaited = 0;  // direct messages still to come or to go
  Clock::time_point last_progress{};
  bool reported = false;  // the others know that it takes long
};

// Notes that two ranks send beside the messages of their calls, behind those sent before.
enum class Note : uint64_t { kMark = 1, kFarewell };

// Result of a look at pending work: nothing, progress, or the end.
enum class Step { kIdle, kMoved, kDone };

class Channel {
 public:
  // `wake`: raised when something outside changes. `stop`: raised to end every wait with a failure.
  Channel(Flag& wake, const Flag& stop);
  ~Channel();

  int rank() const { return rank_; }
  int size() const { return size_; }

  void open(int rank, int size, std::chrono::milliseconds timeout,
            std::unique_ptr<Transport> transport, std::unique_ptr<Liveness> liveness);
  bool is_open() const { return liveness_ != nullptr; }
  // After a failure: tells the others, unless it is null, and lets go of all buffers. The liveness
  // watch goes on.
  void break_off(const Failure* failure);
  // Ends the present call, and the next one, with a failure. From any thread.
  void interrupt() {
    interrupted_ = true;
    wake_.raise();
  }
  // Ends what is under way, on all ranks, with this failure; the first one counts. From any thread.
  void give_up(const Failure& failure);
  // Leaves in good order: tells the others, and returns when they have all that was sent to them,
  // or have gone. The failure: they cannot be reached.
  Outcome take_leave(uint64_t collectives_done);
  // After that: stays to serve the others until all have left, or the process exits.
  void linger();

  // Closes at once, whatever the others do.
  void close();

  // Begins a call: one collective may be under way, or several point-to-point calls; each stays
  // where it is until its end, or break_off().
  void begin(Call& call);
  void end(const Call& call);
  // The call for which messages are sent and received now, and whose fault it is when something
  // throws; null: none.
  Call* present() const { return present_; }
  void turn_to(Call& call) { present_ = &call; }

  Traffic& traffic() { return *traffic_; }
  // `total`: of the message that this is a piece of; both sides must say the same. `until_taken`:
  // the send ends only when the peer has asked for the message.
  Request send(int peer, const void* data, size_t bytes, size_t total, bool until_taken = false);
  Request receive(int peer, void* data, size_t bytes, size_t total);
  Request send_note(int peer, Note note, const void* data, size_t bytes);  // until it is taken
  Request receive_note(int peer, Note note, void* data, size_t bytes);

  // Calls `look` after every bit of progress until it says kDone. Sleeps only when both the
  // transport and `look` have nothing to do.
  template <class Look>
  void wait_until(Look&& look) {
    Pause pause;
    for (;;) {
      const bool moved = transport_ != nullptr && transport_->progress();
      const Step step = look();
      if (step == Step::kDone) return;
      relax(moved || step == Step::kMoved, pause);
    }
  }

  // Memory that lives until the next call of this function.
  char* scratch(size_t bytes);

 private:
  static constexpr uint64_t kPointToPoint = uint64_t{1} << 63;
  static constexpr int kRankShift = 48;
  static constexpr uint64_t kNumberMask = 0xffffff;

  struct Pause {
    unsigned rounds = 0;
    Clock::time_point spin_until{};
  };
  enum Source : uint32_t { kWake, kStop, kTransport, kLiveness };

  void relax(bool moved, Pause& pause);
  uint64_t tag(int source, uint64_t digest) const;
  uint64_t digest(size_t bytes, size_t total) const;
  uint64_t note_tag(int source, Note note) const;
  void check_all(Clock::time_point now);
  void check_lost_peers(Clock::time_point now);
  void check_call(Call& call, Clock::time_point now);
  bool serve_until(const std::function<bool()>& enough, Clock::time_point limit);
  void sleep(Clock::time_point now, Clock::time_point until);
  void drop_requests();
  void watch(int fd, Source source);
  void unwatch(int fd);

  int rank_ = 0;
  int size_ = 1;
  std::chrono::milliseconds timeout_{0};
  Flag& wake_;
  const Flag& stop_;
  int epoll_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Liveness> liveness_;
  std::unique_ptr<Traffic> traffic_;  // goes before the transport: it holds its requests
  std::unique_ptr<ShutdownHandshake> shutdown_handshake_;
  std::vector<char> partners_;  // by rank: there were messages to it, or from it
  std::atomic<bool> interrupted_{false};
  std::mutex failing_;
  Outcome found_;                   // by give_up()
  std::atomic<bool> fails_{false};  // there is one
  std::vector<Call*> calls_;        // under way
  Call* present_ = nullptr;
  std::vector<char> scratch_;
};

}  // namespace hostnccl
