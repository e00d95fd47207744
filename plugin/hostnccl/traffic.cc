#include "traffic.h"

#include <cstring>

namespace hostnccl {

Traffic::Traffic(Channel& channel) : channel_(channel) {
  for (const Flow::Direction direction : {Flow::kIn, Flow::kOut}) {
    for (int distance = 0; distance < channel.size(); ++distance) {
      flows_.emplace_back((channel.rank() + distance) % channel.size(), direction);
    }
  }
}

Flow& Traffic::With(int peer, Flow::Direction direction) {
  const int distance = (peer + channel_.size() - channel_.rank()) % channel_.size();
  return flows_[static_cast<size_t>(direction * channel_.size() + distance)];
}

void Traffic::Start(const std::vector<Transfer>& transfers) {
  Call& call = *channel_.present();
  const int me = channel_.rank();
  for (const Transfer& t : transfers) {
    if (t.peer == me) continue;
    if (t.receives) With(t.peer, Flow::kIn).Add({&call, t.recv, t.bytes});
    if (t.sends) With(t.peer, Flow::kOut).Add({&call, const_cast<char*>(t.send), t.bytes});
  }
  Advance();
  for (const Transfer& t : transfers) {  // while the messages travel
    if (t.sends && t.peer == me && t.bytes > 0 && t.recv != t.send) {
      std::memmove(t.recv, t.send, t.bytes);
    }
  }
}

bool Traffic::Advance() {
  bool moved = false;
  for (Flow& flow : flows_) moved |= flow.Advance(channel_);
  return moved;
}

}  // namespace hostnccl
