#include "flow.h"

#include <algorithm>
#include <utility>

namespace hostnccl {

bool Flow::Advance(Channel& channel) {
  bool moved = false;
  for (; !marks_.empty() && marks_.front().request.Over(); marks_.pop_front()) {
    ahead_ -= marks_.front().cost;
  }
  for (; !pieces_.empty(); moved = true) {
    Piece& piece = pieces_.front();
    channel.TurnTo(*piece.call);
    if (!piece.request.Test()) break;
    piece.call->last_progress = Clock::now();
    if (piece.is_last) --piece.call->awaited;
    under_way_ -= piece.cost;
    pieces_.pop_front();
  }
  for (; !messages_.empty() && under_way_ < kWindowBytes; moved = true) Start(channel);
  return moved;
}

void Flow::Start(Channel& channel) {
  const Message& message = messages_.front();
  channel.TurnTo(*message.call);
  const size_t bytes = std::min(kPieceBytes, message.bytes - offset_);
  char* data = bytes > 0 ? message.data + offset_ : nullptr;
  const size_t cost = bytes + kOverheadBytes;
  // The whole size is part of what both sides must agree on.
  Request request = direction_ == kIn ? channel.Receive(peer_, data, bytes, message.bytes)
                                      : channel.Send(peer_, data, bytes, message.bytes,
                                                     /*until_taken=*/ahead_ + cost > kWindowBytes);
  under_way_ += cost;
  offset_ += bytes;
  const bool is_last = offset_ == message.bytes;
  pieces_.push_back({message.call, std::move(request), cost, is_last});
  Count(channel, cost);
  if (!is_last) return;
  messages_.pop_front();
  offset_ = 0;
}

void Flow::Count(Channel& channel, size_t cost) {
  ahead_ += cost;
  unmarked_ += cost;
  if (unmarked_ < kMarkBytes) return;
  Request request = direction_ == kIn ? channel.ReceiveNote(peer_, Note::kMark, nullptr, 0)
                                      : channel.SendNote(peer_, Note::kMark, nullptr, 0);
  marks_.push_back({std::move(request), std::exchange(unmarked_, 0)});
}

}  // namespace hostnccl
