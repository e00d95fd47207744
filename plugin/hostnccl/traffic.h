// The direct messages of all calls under way: for each pair of ranks and direction one queue, so
// that calls which overlap never overtake each other between the same two ranks.
#pragma once

#include <vector>

#include "channel.h"
#include "peer_queue.h"

namespace hostnccl {

// A message to a peer, one from it, or both at once, of equal size. Pointers may be null when bytes
// is 0, hence the flags.
struct Transfer {
  int peer = 0;
  const char* send = nullptr;
  char* recv = nullptr;
  size_t bytes = 0;
  bool sends = false;
  bool receives = false;

  static Transfer to(int peer, const char* data, size_t bytes) {
    return {peer, data, nullptr, bytes, true, false};
  }
  static Transfer from(int peer, char* data, size_t bytes) {
    return {peer, nullptr, data, bytes, false, true};
  }
  static Transfer both(int peer, const char* send, char* recv, size_t bytes) {
    return {peer, send, recv, bytes, true, true};
  }
};

class Traffic {
 public:
  explicit Traffic(Channel& channel);

  // Starts all at once, for the channel's present call, whose `awaited` counts what is left of it.
  // What a rank sends to itself is there on return.
  void start(const std::vector<Transfer>& transfers);

  // Returns true if that call waits for messages to the peer, or from it.
  bool waits_for(int peer, const Call& call) const;

  // After progress of the transport; true if anything came of it.
  bool advance();

 private:
  PeerQueue& with(int peer, PeerQueue::Direction direction);

  Channel& channel_;
  // Queues by direction and distance of the peer. Receives come first, so that what the others send
  // finds its place.
  std::vector<PeerQueue> queues_;
};

}  // namespace hostnccl
