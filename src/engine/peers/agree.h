// The ranks of a communicator compare what must be alike before anything depends on it: version,
// settings, and each scheme but for its seed at its first use. A mismatch is one clear error on
// every rank.
#pragma once

#include <optional>
#include <span>

#include "engine/comm/communicator.h"

namespace terse {

struct Agreement {
  Communicator* communicator;
  const Scheme* scheme;          // null: the settings alone
  Stream stream;                 // the caller's; null at a communicator's creation
  std::optional<int> peer = {};  // empty: all ranks
  bool alone = true;             // no other call of the communicator comes to be made with it
};

// Collective over each communicator, or between two of its ranks, each of whom names the other as
// `peer`; those of one thread go together, in one NCCL group. Schemes
// agreed before are skipped. What it throws is the end of all calls that it was for: the
// communicators that do not fail alike on all of their ranks are invalid then; also one of which
// two ranks refuse a message, where other calls go with it, of which the others know nothing.
// Throws Error(ncclInvalidUsage) that names a rank that differs, or that a new scheme cannot be
// compared while its stream is recorded; and Error(ncclSystemError) when a rank does not answer
// within TERSE_TIMEOUT; the communicator then is good for nothing but to be aborted. Only what all
// ranks agree on numbers the communicator, for the random numbers.
void agree(std::span<const Agreement> agreements);

}  // namespace terse
