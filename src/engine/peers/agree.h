// Agreement of a communicator's ranks on what must be alike before anything depends on it: version,
// settings, and each scheme without its seed at its first use. A mismatch is one clear error on
// every rank.
#pragma once

#include <optional>
#include <span>

#include "engine/comm/communicator.h"

namespace terse {

struct Agreement {
  Communicator* communicator;
  const Scheme* scheme;          // null: only the settings
  Stream stream;                 // of the caller; null at a communicator's creation
  std::optional<int> peer = {};  // empty: all ranks
  bool alone = true;             // no other call of the communicator depends on it
};

// Collective over each communicator, or between two of its ranks that name each other as `peer`;
// the agreements of one thread go together, in one NCCL group. Skips schemes agreed before. If it
// throws, every call passed in has failed: communicators that do not fail alike on all ranks are
// poisoned, also one of which two ranks refuse a message, if other calls go with it that the other
// ranks do not know of. Throws Error(ncclInvalidUsage) that names a rank that differs, or for a new
// scheme while its stream is recorded; Error(ncclSystemError) if a rank does not answer within
// TERSE_TIMEOUT, and then the communicator can only be aborted. Only agreements of all ranks number
// the communicator, for the random numbers.
void agree(std::span<const Agreement> agreements);

}  // namespace terse
