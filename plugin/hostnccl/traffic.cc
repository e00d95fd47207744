#include "traffic.h"

#include <algorithm>
#include <cstring>

namespace hostnccl {

Traffic::Traffic(Channel& channel) : channel_(channel) {
  for (const PeerQueue::Direction direction : {PeerQueue::kIn, PeerQueue::kOut}) {
    for (int distance = 0; distance < channel.size(); ++distance) {
      queues_.emplace_back((channel.rank() + distance) % channel.size(), direction);
    }
  }
}

PeerQueue& Traffic::with(int peer, PeerQueue::Direction direction) {
  const int distance = (peer + channel_.size() - channel_.rank()) % channel_.size();
  return queues_[static_cast<size_t>(direction * channel_.size() + distance)];
}

void Traffic::start(const std::vector<Transfer>& transfers) {
  Call& call = *channel_.present();
  const int me = channel_.rank();
  for (const Transfer& t : transfers) {
    if (t.peer == me) continue;
    if (t.receives) with(t.peer, PeerQueue::kIn).add({&call, t.recv, t.bytes});
    if (t.sends) with(t.peer, PeerQueue::kOut).add({&call, const_cast<char*>(t.send), t.bytes});
  }
  advance();
  for (const Transfer& t : transfers) {  // while the messages travel
    if (t.sends && t.peer == me && t.bytes > 0 && t.recv != t.send) {
      std::memmove(t.recv, t.send, t.bytes);
    }
  }
}

bool Traffic::waits_for(int peer, const Call& call) const {
  return std::ranges::any_of(
      queues_, [&](const PeerQueue& queue) { return queue.peer() == peer && queue.holds(call); });
}

bool Traffic::advance() {
  bool moved = false;
  for (PeerQueue& queue : queues_) moved |= queue.advance(channel_);
  return moved;
}

}  // namespace hostnccl
