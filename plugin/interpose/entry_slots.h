// Slots that the entries (entries.S) jump through. The entries rely on their layout.
#pragma once

#include <cstdint>

#include "nccl/table.h"

namespace terse::interpose {

// Memory of a loaded library, in which return addresses are looked up.
struct Image {
  uintptr_t begin;
  uintptr_t size;
};

struct Slot {
  void* target;  // NCCL's function
  void* entry;   // exported under the function's name
  void* own;     // C++ function behind it if it is ours
};

const char* name_of(const Slot& slot);

// Slot of a function; null if there is none of the name.
const Slot* slot_of(const char* name);

// Points the slots at the library's functions, and lets calls from within it bypass ours.
void bind_entries(const NcclLibrary& library);

}  // namespace terse::interpose
