#include "farewell.h"

namespace hostnccl {

Farewell::Farewell(Channel& channel)
    : channel_(channel),
      ours_(static_cast<size_t>(channel.size())),
      theirs_(static_cast<size_t>(channel.size())) {
  for (int peer = 0; peer < channel.size(); ++peer) {
    if (peer == channel.rank()) continue;
    Words& words = theirs_[static_cast<size_t>(peer)];
    words.request = channel.ReceiveNote(peer, Note::kFarewell, &words.collectives_done,
                                        sizeof(words.collectives_done));
    words.pending = true;
  }
}

void Farewell::Say(int peer, uint64_t collectives_done) {
  Words& words = ours_[static_cast<size_t>(peer)];
  words.collectives_done = collectives_done;
  try {
    words.request = channel_.SendNote(peer, Note::kFarewell, &words.collectives_done,
                                      sizeof(words.collectives_done));
    words.pending = true;
  } catch (const Failure&) {  // it has gone
  }
}

int Farewell::Unheard(const Liveness& liveness) {
  for (size_t peer = 0; peer < ours_.size(); ++peer) {
    Words& words = ours_[peer];
    if (words.pending && words.request.Over()) words.pending = false;
    if (words.pending && !liveness.HasDeparted(static_cast<int>(peer))) {
      return static_cast<int>(peer);
    }
  }
  return -1;
}

void Farewell::Listen(Liveness& liveness) {
  for (size_t peer = 0; peer < theirs_.size(); ++peer) {
    Words& words = theirs_[peer];
    if (!words.pending || !words.request.Over()) continue;
    words.pending = false;
    liveness.Depart(static_cast<int>(peer), words.collectives_done);
  }
}

void Farewell::Drop() {
  for (std::vector<Words>* all : {&ours_, &theirs_}) {
    for (Words& words : *all) words.request = {};
  }
}

}  // namespace hostnccl
