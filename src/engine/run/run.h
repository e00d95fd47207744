// Run of one work: lays its plan's steps on the lanes of its communicator's stream set, between
// what the callers' streams did before and what they do next. Several works of a communicator may
// be under way at once, each with its share of the stream set.
//
// Order of calls: begin(); while advance() is true, communicate() within an NCCL group, and
// communicated(); end(). After a failure of any of them abandon(). On a GPU a plan that is a chain
// goes on the caller's own stream, or where it cannot on the decode lane alone. Time to the right:
//
//    caller       ...[before]                                          [after]...
//    encode                  [encode 0][encode 1]                     ^
//    communicate                      [exchange 0][exchange 1]        |
//    decode                                       [decode 0 ][decode 1]
#pragma once

#include <array>
#include <optional>

#include "engine/run/bind.h"
#include "engine/run/work.h"

namespace terse {

// Begin of a work's part of the stream set, behind those of the works beside it.
struct Share {
  size_t scratch = 0;  // bytes
  size_t events = 0;   // of steps
  uint64_t calls = 0;  // before it, not counted yet
};

class Run {
 public:
  // `alone`: no other work is enqueued with it.
  Run(const Work& work, const Share& share, bool alone);

  // Share of the communicator's next work, if it may go beside this one; empty: it must wait. All
  // ranks decide alike, as what goes together changes the order of messages between them: both are
  // calls without a root, with the same steps and scratch on each rank, whose memory all ranks have
  // agreed on; and NCCL makes one launch of the messages of so many calls. NCCL itself asks that
  // ranks group the same calls.
  std::optional<Share> try_coschedule(const Work& next) const;

  // `first`: first of its communicator in the group, whose streams have met and are waited for.
  void begin(bool first);

  // Enqueues the computes up to the next communicate step; returns false if none is left.
  bool advance();
  void communicate();
  void communicated() { mark(plan_->steps[next_++]); }

  void end();
  void abandon() noexcept;

  // Returns true if anything was enqueued.
  bool has_enqueued() const { return entered_[static_cast<size_t>(plan::Lane::kDecode)]; }

  // Returns true if a caller wants it done on return.
  bool is_synchronous() const { return synchronous_; }

  // Next communicate step: whether it has native collectives; and its bytes, for tools.
  bool next_is_native() const { return !plan_->steps[next_].natives.empty(); }
  size_t next_bytes() const { return bytes(plan_->steps[next_]); }

  const Work& work() const { return messages_; }
  const Communicator& communicator() const { return c_; }
  const NcclLibrary& library() const { return c_.library; }

 private:
  template <class Wait>
  void enter(const Wait& wait);
  void join_lanes();
  void cut_off();
  void wait_if_unmarked();
  void wait_if_synchronous();
  void release_binding();
  void leave();
  Stream decode_lane() const {
    return stream_set_.lanes()[static_cast<size_t>(plan::Lane::kDecode)];
  }
  // Queue that all steps end on.
  Stream last_lane() const { return on_callers_stream_ ? streams_.front() : decode_lane(); }
  // Returns true if all steps go on the last lane, without a hop between queues. On hosts lanes are
  // threads, of which the next one waits already when a step ends: several are faster.
  bool on_one_lane() const { return plan_->is_chain && c_.backend.is_gpu(); }
  // Several works on one stream would go one after the other.
  bool fits_callers_stream(bool alone) const {
    return alone && on_one_lane() && streams_.size() == 1 &&
           c_.backend.takes_calls(streams_.front());
  }
  Stream lane(const plan::Step& step) const {
    return on_one_lane() ? last_lane() : stream_set_.lanes()[step.queue()];
  }
  void enqueue_header(Stream lane);
  void enqueue_fused(Stream lane);
  void wait_for(const plan::Step& step);
  void mark(const plan::Step& step);
  void call_natively(Request request, Stream lane) const;
  void transfer(const plan::Transfer& t, Stream lane) const;

  bool of_messages() const { return is_message(*messages_.front()); }
  Event step_event(size_t index) const { return stream_set_.step_event(share_.events + index); }
  CallNumber number() const;
  bool is_to_be_verified() const;
  bool is_to_learn() const { return will_learn(*messages_.front()); }
  bool will_learn(const Job& job) const;
  char* state() const;
  Codebook* codebook() const;
  float* table();
  [[noreturn]] void fail_without_memory() const;
  void compare();
  void count();
  size_t bytes(const plan::Step& step) const;

  const Work& messages_;  // one, of a collective
  Communicator& c_;
  StreamSet& stream_set_;
  const Share share_;
  const bool verified_;  // compared with the native result
  const bool learns_;    // learns levels first
  const PlanPointer plan_;
  Codebook* const codebook_;  // null: the codec has none
  Binding& binding_;
  Regions regions_;
  std::pmr::vector<Stream> streams_;  // of the callers
  bool synchronous_ = false;
  bool on_callers_stream_ = false;
  bool marked_ = false;  // the end, for what comes after
  std::pmr::vector<bool> waited_for_;
  size_t next_ = 0, next_header_ = 0;
  std::array<bool, plan::kLanes> entered_{};
  bool ended_ = false;
  Sample* sample_ = nullptr;  // null: nothing is measured
  uint64_t range_ = 0;
};

}  // namespace terse
