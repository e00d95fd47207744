// The levels of a communicator's learned codecs, as the program gives and asks for them (terse.h).
#pragma once

#include <cstddef>

#include "nccl/table.h"
#include "policy/settings.h"

namespace terse {

// terseCommSetLevels: throws Error, and then nothing has changed on any rank.
void give_levels(ncclComm_t comm, const char* text, const Settings& settings);

// terseCommGetLevels; returns how many bytes the text takes.
size_t get_levels(ncclComm_t comm, char* text, size_t capacity);

}  // namespace terse
