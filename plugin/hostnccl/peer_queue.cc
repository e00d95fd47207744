#include "peer_queue.h"

#include <algorithm>
#include <utility>

namespace hostnccl {

bool PeerQueue::holds(const Call& call) const {
  const auto is_its = [&](const auto& part) { return part.call == &call; };
  return std::ranges::any_of(messages_, is_its) || std::ranges::any_of(pieces_, is_its);
}

bool PeerQueue::advance(Channel& channel) {
  bool moved = false;
  for (; !marks_.empty() && marks_.front().request.over(); marks_.pop_front()) {
    ahead_ -= marks_.front().cost;
  }
  for (; !pieces_.empty(); moved = true) {
    Piece& piece = pieces_.front();
    channel.turn_to(*piece.call);
    if (!piece.request.test()) break;
    piece.call->last_progress = Clock::now();
    if (piece.is_last) --piece.call->awaited;
    under_way_ -= piece.cost;
    pieces_.pop_front();
  }
  for (; !messages_.empty() && under_way_ < kWindowBytes; moved = true) start(channel);
  return moved;
}

void PeerQueue::start(Channel& channel) {
  const Message& message = messages_.front();
  channel.turn_to(*message.call);
  const size_t bytes = std::min(kPieceBytes, message.bytes - offset_);
  char* data = bytes > 0 ? message.data + offset_ : nullptr;
  const size_t cost = bytes + kOverheadBytes;
  // The whole size is part of what both sides must agree on.
  Request request = direction_ == kIn ? channel.receive(peer_, data, bytes, message.bytes)
                                      : channel.send(peer_, data, bytes, message.bytes,
                                                     /*until_taken=*/ahead_ + cost > kWindowBytes);
  under_way_ += cost;
  offset_ += bytes;
  const bool is_last = offset_ == message.bytes;
  pieces_.push_back({message.call, std::move(request), cost, is_last});
  count(channel, cost);
  if (!is_last) return;
  messages_.pop_front();
  offset_ = 0;
}

void PeerQueue::count(Channel& channel, size_t cost) {
  ahead_ += cost;
  unmarked_ += cost;
  if (unmarked_ < kMarkBytes) return;
  Request request = direction_ == kIn ? channel.receive_note(peer_, Note::kMark, nullptr, 0)
                                      : channel.send_note(peer_, Note::kMark, nullptr, 0);
  marks_.push_back({std::move(request), std::exchange(unmarked_, 0)});
}

}  // namespace hostnccl
