// The ranks of a communicator compare what must be alike before anything depends on it: version,
// settings, and each scheme at its first use. A mismatch is one clear error on every rank.
#pragma once

#include <span>

#include "engine/communicator.h"

namespace terse {

struct Agreement {
  Communicator* communicator;
  const Scheme* scheme;  // null: the settings alone
  Stream stream;         // the caller's; null at a communicator's creation
};

// Collective over each communicator; those of one thread go together, in one NCCL group. Schemes
// agreed before are skipped. Throws Error(ncclInvalidUsage) that names a rank that differs, or that
// a new scheme cannot be compared while its stream is recorded; and Error(ncclSystemError) when a
// rank does not answer within TERSE_TIMEOUT; the communicator then is good for nothing but to be
// aborted.
void agree(std::span<const Agreement> agreements);

}  // namespace terse
