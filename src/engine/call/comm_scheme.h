// Scheme of a communicator's own (tersePreloadScheme), in place of the rules' for a while.
#pragma once

#include <string_view>

#include "nccl/table.h"
#include "policy/settings.h"

namespace terse {

// Compresses the communicator's calls by the scheme from now on, until pop_scheme(). The ranks
// compare theirs. Such schemes nest. If it throws Error, nothing has changed on any rank.
void push_scheme(ncclComm_t comm, std::string_view scheme, const Settings& settings);

// Ends the last push_scheme(), without exchanging anything; does nothing if there is none.
void pop_scheme(ncclComm_t comm);

}  // namespace terse
