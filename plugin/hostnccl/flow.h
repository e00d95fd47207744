// All messages to one peer, or from one, in the order in which they were asked for, whichever calls
// they belong to. Large ones travel in pieces, of which a few are under way at a time.
#ifndef HOSTNCCL_FLOW_H_
#define HOSTNCCL_FLOW_H_

#include <deque>

#include "channel.h"

namespace hostnccl {

class Flow {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  static constexpr size_t kWindowBytes = 4 * kPieceBytes;

  enum Direction { kIn, kOut };
  struct Message {
    Call* call;  // lives until it awaits nothing more, or this flow is gone
    char* data;
    size_t bytes;
    bool until_taken;  // a send that counts as under way until the peer has asked for it
  };

  Flow(int peer, Direction direction) : peer_(peer), direction_(direction) {}
  Flow(Flow&&) = default;

  void Add(const Message& message) {
    messages_.push_back(message);
    ++message.call->awaited;
  }

  // Ends what has ended and starts what may start; true if there was any of it.
  bool Advance(Channel& channel);

 private:
  struct Piece {
    Call* call;
    Request request;
    size_t bytes;
    bool is_last;  // of its message
  };
  void Start(Channel& channel);

  int peer_;
  Direction direction_;
  std::deque<Message> messages_;  // not fully started; of the first, `offset_` bytes are
  size_t offset_ = 0;
  std::deque<Piece> pieces_;  // under way
  size_t bytes_under_way_ = 0;
};

}  // namespace hostnccl

#endif  // HOSTNCCL_FLOW_H_
