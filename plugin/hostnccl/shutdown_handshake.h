// The last words between two ranks, behind all their messages: once they have arrived, so has all
// that was sent before them, and the other side knows that the connection ends in good order, also
// where the hub of the liveness watch has gone.
#pragma once

#include <cstdint>
#include <vector>

#include "channel.h"

namespace hostnccl {

class ShutdownHandshake {
 public:
  explicit ShutdownHandshake(Channel& channel);

  // Sends the handshake to a peer. `collectives_done`: as in a goodbye.
  void send(int peer, uint64_t collectives_done);
  // A rank that may not have received ours, or -1. One that cannot any more does not count.
  int unconfirmed(const Liveness& liveness);
  // Passes on those that have come.
  void receive(Liveness& liveness);
  // Before the transport closes. What is still to be sent stays where it is.
  void drop();

 private:
  struct Words {
    uint64_t collectives_done = 0;
    Request request;
    bool pending = false;
  };
  Channel& channel_;
  std::vector<Words> ours_, theirs_;  // by rank
};

}  // namespace hostnccl
