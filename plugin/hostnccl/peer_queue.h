// All messages to one peer, or from one, in the order in which they were asked for, whichever calls
// they belong to. Large ones travel in pieces, of which a few are under way at a time.
//
// Until its peer asks for it, a message waits in memory, and the sender may long be through with
// it. So the sender counts by how much it is ahead: after every half window both sides put a mark,
// an empty message that the receiver takes when it has asked for all before it. Beyond a window,
// sends count as under way until they are taken. A sender whose peer keeps up is never held back.
#pragma once

#include <deque>

#include "channel.h"

namespace hostnccl {

class PeerQueue {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;
  static constexpr size_t kWindowBytes = 4 * kPieceBytes;
  static constexpr size_t kMarkBytes = kWindowBytes / 2;
  static constexpr size_t kOverheadBytes = 1024;  // what a piece takes beside its bytes, about

  enum Direction { kIn, kOut };
  struct Message {
    Call* call;  // lives until it awaits nothing more, or this flow is gone
    char* data;
    size_t bytes;
  };

  PeerQueue(int peer, Direction direction) : peer_(peer), direction_(direction) {}
  PeerQueue(PeerQueue&&) = default;

  void add(const Message& message) {
    messages_.push_back(message);
    ++message.call->awaited;
  }

  int peer() const { return peer_; }
  // Returns true if a message of that call is not through.
  bool holds(const Call& call) const;

  // Ends what has ended and starts what may start; true if there was any of it.
  bool advance(Channel& channel);

 private:
  struct Piece {
    Call* call;
    Request request;
    size_t cost;
    bool is_last;  // of its message
  };
  struct Mark {
    Request request;
    size_t cost;  // of the pieces since the last one
  };
  void start(Channel& channel);
  void count(Channel& channel, size_t cost);

  int peer_;
  Direction direction_;
  std::deque<Message> messages_;  // not fully started; of the first, `offset_` bytes are
  size_t offset_ = 0;
  std::deque<Piece> pieces_;  // under way
  size_t under_way_ = 0;      // their cost
  std::deque<Mark> marks_;    // not reached yet
  size_t ahead_ = 0;          // cost of the pieces that were started, since the last mark reached
  size_t unmarked_ = 0;       // ... since the last mark put
};

}  // namespace hostnccl
