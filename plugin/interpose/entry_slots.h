// What the entries (entries.S) jump through. Its layout is known to them.
#pragma once

#include <cstdint>

#include "nccl/table.h"

namespace terse::interpose {

// The memory of a loaded library. Return addresses are looked for in it.
struct Image {
  uintptr_t begin;
  uintptr_t size;
};

struct Slot {
  void* target;  // NCCL's function
  void* entry;   // what this library exports under the function's name
  void* own;     // the C++ function behind it where it is ours
};

const char* name_of(const Slot& slot);

// The slot of a function named `name`, null where there is none.
const Slot* slot_of(const char* name);

// Leads the slots to the library's functions, and the calls that come from within it past ours.
void bind_entries(const NcclLibrary& library);

}  // namespace terse::interpose
