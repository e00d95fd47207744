// Levels of a communicator's learned codecs, given and read by the program (terse.h).
#pragma once

#include <cstddef>

#include "nccl/table.h"
#include "policy/settings.h"

namespace terse {

// Implements terseCommSetLevels. If it throws Error, nothing has changed on any rank.
void give_levels(ncclComm_t comm, const char* text, const Settings& settings);

// Implements terseCommGetLevels; returns the size of the text.
size_t get_levels(ncclComm_t comm, char* text, size_t capacity);

}  // namespace terse
