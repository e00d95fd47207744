// Requests that all ranks of a communicator must make alike, before anything of them is done.
#pragma once

#include <exception>
#include <optional>

#include "base/error.h"
#include "engine/comm/communicator.h"

namespace terse {

// Compares the ranks' requests, outside of groups; all ranks learn if one has `trouble`. Blocks.
// Throws that trouble, or Error(ncclInvalidUsage): "rank R {differs}". Poisons the communicator if
// this rank cannot ask the others.
void require_unanimous(Communicator& communicator, uint64_t wish,
                       const std::optional<Error>& trouble, const char* differs);

// Runs what all ranks do after they have agreed. A rank that fails in it is poisoned.
template <class Body>
void after_agreeing(Communicator& communicator, const Body& body) {
  try {
    body();
  } catch (const std::exception& cause) {
    communicator.health().poison(cause);
    throw;
  }
}

// Returns the error that `body` throws, if it does.
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
