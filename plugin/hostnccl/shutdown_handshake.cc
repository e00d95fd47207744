#include "shutdown_handshake.h"

namespace hostnccl {

ShutdownHandshake::ShutdownHandshake(Channel& channel)
    : channel_(channel),
      ours_(static_cast<size_t>(channel.size())),
      theirs_(static_cast<size_t>(channel.size())) {
  for (int peer = 0; peer < channel.size(); ++peer) {
    if (peer == channel.rank()) continue;
    Words& words = theirs_[static_cast<size_t>(peer)];
    words.request = channel.receive_note(peer, Note::kFarewell, &words.collectives_done,
                                         sizeof(words.collectives_done));
    words.pending = true;
  }
}

void ShutdownHandshake::send(int peer, uint64_t collectives_done) {
  Words& words = ours_[static_cast<size_t>(peer)];
  words.collectives_done = collectives_done;
  try {
    words.request = channel_.send_note(peer, Note::kFarewell, &words.collectives_done,
                                       sizeof(words.collectives_done));
    words.pending = true;
  } catch (const Failure&) {  // it has gone
  }
}

int ShutdownHandshake::unconfirmed(const Liveness& liveness) {
  for (size_t peer = 0; peer < ours_.size(); ++peer) {
    Words& words = ours_[peer];
    if (words.pending && words.request.over()) words.pending = false;
    if (words.pending && !liveness.has_departed(static_cast<int>(peer))) {
      return static_cast<int>(peer);
    }
  }
  return -1;
}

void ShutdownHandshake::receive(Liveness& liveness) {
  for (size_t peer = 0; peer < theirs_.size(); ++peer) {
    Words& words = theirs_[peer];
    if (!words.pending || !words.request.over()) continue;
    words.pending = false;
    liveness.depart(static_cast<int>(peer), words.collectives_done);
  }
}

void ShutdownHandshake::drop() {
  for (std::vector<Words>* all : {&ours_, &theirs_}) {
    for (Words& words : *all) words.request = {};
  }
}

}  // namespace hostnccl
