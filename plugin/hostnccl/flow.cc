#include "flow.h"

#include <algorithm>

namespace hostnccl {

bool Flow::Advance(Channel& channel) {
  bool moved = false;
  for (; !pieces_.empty(); moved = true) {
    Piece& piece = pieces_.front();
    channel.TurnTo(*piece.call);
    if (!piece.request.Test()) break;
    piece.call->last_progress = Clock::now();
    if (piece.is_last) --piece.call->awaited;
    bytes_under_way_ -= piece.bytes;
    pieces_.pop_front();
  }
  for (; !messages_.empty() && bytes_under_way_ < kWindowBytes; moved = true) Start(channel);
  return moved;
}

void Flow::Start(Channel& channel) {
  const Message& message = messages_.front();
  channel.TurnTo(*message.call);
  const size_t bytes = std::min(kPieceBytes, message.bytes - offset_);
  char* data = bytes > 0 ? message.data + offset_ : nullptr;
  // The whole size is part of what both sides must agree on.
  Request request = direction_ == kIn
                        ? channel.Receive(peer_, data, bytes, message.bytes)
                        : channel.Send(peer_, data, bytes, message.bytes, message.until_taken);
  bytes_under_way_ += bytes;
  offset_ += bytes;
  const bool is_last = offset_ == message.bytes;
  pieces_.push_back({message.call, std::move(request), bytes, is_last});
  if (!is_last) return;
  messages_.pop_front();
  offset_ = 0;
}

}  // namespace hostnccl
