// Collectives that are made of Send and Recv, as lists of a rank's messages.
#pragma once

#include <cstddef>
#include <vector>

#include "call.h"

namespace terse::perf {

struct Message {
  bool sends;
  int peer;
  bool from_receive;  // sends what the receive buffer holds
  std::size_t first;  // element of the send or the receive buffer
  std::size_t count;
};
using Messages = std::vector<Message>;

using MessagesOf = Messages (*)(const Call& call);
Messages to_the_next(const Call& call);
Messages to_each(const Call& call);
Messages to_each_its_count(const Call& call);
Messages to_the_root(const Call& call);
Messages from_the_root(const Call& call);
// A dimension a step; step 0 brings the own share to its place.
Messages along_a_dimension(const Call& call);
int hypercube_steps(int nranks);

// All of them in one group; by libterse where there is a scheme.
ncclResult_t exchange(const Messages& messages, const Call& call, const Scheme* scheme);

}  // namespace terse::perf
