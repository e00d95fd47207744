// A communicator on one rank: its thread, its queue of launches, its state.
//
// The thread does everything that touches the network: it bootstraps, starts the launches in the
// order they were made, each once all its streams have reached it, watches over the peers, and
// finally stays until nobody needs it any more. Calls from the program only queue and wait.
//
// A launch with collectives runs alone. Of those that only send and receive a few may be under way,
// so that one which waits for a peer that is late does not leave the link idle; between two ranks
// their messages keep the order of the launches.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "bootstrap.h"
#include "call_completion.h"
#include "channel.h"
#include "flag.h"
#include "op.h"
#include "stream.h"

namespace hostnccl {

// Work that one call, or one group of calls, asks of a communicator.
struct Launch {
  std::vector<Op> collectives;     // in order
  std::vector<Op> point_to_point;  // after them, all at once
  std::atomic<int> streams_awaited{0};
  std::shared_ptr<Completion> done = std::make_shared<Completion>();

  // State that the communicator's thread alone uses.
  bool started = false;
  Call call;  // the point-to-point part, once started
};

struct Config {
  bool blocking = true;
};

class Comm : public std::enable_shared_from_this<Comm> {
 public:
  // Who the members are and how they meet.
  struct Meeting {
    bool member = true;  // false: this rank is in no communicator (split without a colour)
    Membership self;
    std::shared_ptr<Listener> listener;
    std::function<Star(const Settings&, const Flag&)> join;
  };
  // May take its time: it runs on the communicator's thread. The flag ends it early.
  using Meet = std::function<Meeting(const Settings&, const Flag& stop)>;

  static std::shared_ptr<Comm> start(Config config, Meet meet);
  Comm(Config config, Meet meet);

  // Waits for the end of the initialisation; throws its failure. False: not a member.
  bool wait_until_ready();
  void on_ready(Completion::Listener listener) { ready_.then(std::move(listener)); }

  int rank() const { return self_.rank; }
  int size() const { return self_.size; }
  const Config& config() const { return config_; }

  // Throws when the communicator cannot take calls: in progress, failed, finalised, revoked.
  void check_usable() const;
  // Checks as check_usable() does, but admits a revoked communicator, of which children can be
  // made.
  void check_divisible() const;
  bool is_revoked() const;
  // Throws while it is still being initialised.
  void require_initialized() const;
  // Checks as check_usable() does, and that no child is being made of a non-blocking communicator.
  void require_undivided() const;
  std::shared_ptr<Launch> enqueue(std::vector<Op> ops,
                                  const std::set<std::shared_ptr<Stream>>& streams);

  void finalize();         // no more launches from now on; leaves in good order after the last one
  void wait_until_left();  // what was sent has arrived; throws if that cannot be known
  // Both; also of a communicator that has failed. No part of it is being made any more then: those
  // that are not made in time are given up, and so is it.
  void destroy();
  // Whatever is under way ends now, with a failure, and so do the parts that are being made.
  void abort();
  void request_abort() { stop_->raise(); }
  void give_up(const Failure& failure) { channel_.give_up(failure); }  // all ranks; does not wait
  void quiesce();  // as abort, but only its calls end: parts may still be made of it
  ncclResult_t async_error();
  // After a launch: whether this communicator does not block, and so says ncclInProgress, and then
  // once more when it is asked, as NCCL does while it enqueues.
  bool reports_later();
  // A part of this communicator, from its start until it is ready. A failure: this one was aborted,
  // and the part is to be given up.
  Outcome begin_part(const std::shared_ptr<Comm>& part);
  // Ends a child that has begun, once for each: a failure of a non-blocking communicator's is the
  // parent's to report. Calls `hand_out` unless it has failed, or the parent was aborted, and
  // before any abort or destroy returns. Returns why it was not called.
  Outcome end_part(const std::shared_ptr<Comm>& part, const Outcome& failure,
                   const std::function<void()>& hand_out);

  // Data for split and shrink. All ranks' addresses are learnt at the start.
  uint64_t magic() const { return self_.magic; }
  Address listener_address(int rank) const {
    return listener_addresses_.at(static_cast<size_t>(rank));
  }
  std::shared_ptr<Listener> listener() const { return listener_; }
  // Numbers such calls alike on all ranks: a split's when it is queued, as its ranks meet in that
  // order; a shrink's before anything of it can fail on one rank alone. They are counted apart, for
  // a rank that knows of a failure may leave out a split.
  uint64_t next_split() { return next_part(splits_); }
  uint64_t next_shrink() { return next_part(shrinks_); }
  // Numbers the splits of a revoked communicator, which all its ranks begin.
  uint64_t next_late_split() { return next_part(late_splits_); }

  // Operators made by ncclRedOpCreatePreMulSum.
  ncclRedOp_t add_operator(const Operator& op, ncclDataType_t dtype);
  void remove_operator(ncclRedOp_t handle);
  Operator resolve_operator(ncclRedOp_t handle, ncclDataType_t dtype) const;

 private:
  void main();
  void initialize();
  std::string data_device() const;
  void admit(const std::vector<std::string>& connections, Transport& transport, const Star& star,
             const Limit& limit) const;
  void serve();
  Step advance();
  bool is_idle() const;
  bool is_through() const;
  std::shared_ptr<Launch> next_launch() const;
  void start(const std::shared_ptr<Launch>& launch);
  void run_collectives(Launch& launch);
  bool end_launches();
  void finish(const std::shared_ptr<Launch>& launch);
  void attach(const std::shared_ptr<Launch>& launch,
              const std::set<std::shared_ptr<Stream>>& streams);
  Failure explained(const Failure& failure) const;
  void fail_with(const Failure& failure);
  void leave();
  void refuse_more();
  void begin_to_leave();
  bool await_parts(std::chrono::milliseconds patience);
  uint64_t next_part(uint64_t& count);
  // mutex_ is held.
  bool is_divided() const { return !config_.blocking && !children_.empty(); }
  void require_whole() const;
  void require_usable() const;

  const Config config_;
  Meet meet_;
  const Settings settings_;
  Membership self_;
  std::shared_ptr<Listener> listener_;
  std::vector<Address> listener_addresses_;
  bool member_ = true;

  Flag wake_;
  const std::shared_ptr<Flag> stop_ = std::make_shared<Flag>();
  Completion ready_;
  Completion quiet_;  // after quiesce: nothing is under way
  Completion left_;   // the thread has done all that the program can see
  Channel channel_{wake_, *stop_};
  uint64_t collectives_ = 0;                        // completed so far
  Call collective_;                                 // the one under way, if any
  std::vector<std::shared_ptr<Launch>> under_way_;  // with nothing but point-to-point left

  mutable std::mutex mutex_;
  bool revoked_ = false;
  bool leaving_ = false;
  Outcome failure_;
  std::deque<std::shared_ptr<Launch>> launches_;  // all that have not ended
  uint64_t splits_ = 0;
  uint64_t shrinks_ = 0;
  uint64_t late_splits_ = 0;
  Outcome part_failure_;  // the first of the parts since the latest of these calls
  std::vector<std::weak_ptr<Comm>> children_;  // being made
  std::condition_variable children_changed_;
  std::atomic<bool> reports_later_{false};
  std::map<int, std::pair<Operator, ncclDataType_t>> operators_;
};

using CommPtr = std::shared_ptr<Comm>;

}  // namespace hostnccl
