// Reporting communicator of this process: the first one on which its ranks agreed. If several of
// its ranks are threads of the process, the lowest one reports, whichever comes first: reports are
// named by it, and if it is 0 the process speaks for its job.
#pragma once

#include <cstdint>
#include <optional>

namespace terse {

// Begins at a communicator's creation. A forked process has no reporting communicator of its
// parent's.
void reporting_begins() noexcept;

// Returns true if the communicator reports, whose ranks have agreed and of which this is `rank`;
// `identity` is its own, not 0.
bool leads(uint64_t identity, int rank) noexcept;

// Lowest rank here of the reporting communicator; empty: there is none yet.
std::optional<int> leading_rank() noexcept;

}  // namespace terse
