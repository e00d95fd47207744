// The communicator that leads in this process: the first one on which its ranks agreed. Several of
// its ranks may be threads of the process, and the least of them stands for it, whichever comes
// first: reports are named by it, and where it is 0 the process speaks for its job.
#pragma once

#include <cstdint>
#include <optional>

namespace terse {

// From a communicator's creation on. In a process that was forked nothing of its parent's leads.
void reporting_begins() noexcept;

// Of a communicator whose ranks have agreed, of which this is `rank`; `identity` is no other's, and
// not 0. Whether it leads.
bool leads(uint64_t identity, int rank) noexcept;

// The least rank here of the communicator that leads; empty: there is none yet.
std::optional<int> leading_rank() noexcept;

}  // namespace terse
