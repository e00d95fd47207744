// Calls on an idle communicator.
#pragma once

#include "engine/call/pending_group.h"
#include "engine/call/route.h"
#include "idle.h"

namespace terse::test {

struct IdleCaller {
  Request request(plan::Collective collective, size_t count) {
    return {.collective = collective,
            .send = data,
            .recv = data + 1,
            .count = count,
            .stream = reinterpret_cast<Stream>(data)};
  }

  void compress(plan::Collective collective, size_t count) {
    const Request r = request(collective, count);
    submit(c.state, r, route(c.state, r, scheme));
  }

  const Scheme scheme = parse_scheme("int8:algo=twoshot");
  float data[2] = {};
  IdleCommunicator c{scheme};
};

}  // namespace terse::test
