// What all ranks of a communicator must ask for alike, before anything of it is done.
#pragma once

#include <exception>
#include <optional>

#include "base/error.h"
#include "engine/comm/communicator.h"

namespace terse {

// The ranks compare their wishes, outside of groups, and all hear of it where one of them has
// `trouble`. Blocks. Throws that trouble, or Error(ncclInvalidUsage): "rank R {differs}". Where
// this rank cannot ask the others, the communicator is invalid then.
void require_unanimous(Communicator& communicator, uint64_t wish,
                       const std::optional<Error>& trouble, const char* differs);

// What all ranks do when they are of one mind. One that fails is not as the others are any more.
template <class Body>
void after_agreeing(Communicator& communicator, const Body& body) {
  try {
    body();
  } catch (const std::exception& cause) {
    communicator.health.poison(cause);
    throw;
  }
}

// The error that `body` throws, if it does.
template <class Body>
std::optional<Error> trouble_with(const Body& body) {
  try {
    body();
    return {};
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace terse
