#include "interpose/entry_slots.h"

#include <atomic>
#include <cstring>
#include <span>

#include "interpose/next.h"
#include "nccl/objects.h"

// Defined in entries.S.
extern "C" {
extern terse::interpose::Image terse_images[2];
extern terse::interpose::Slot terse_slots[], terse_slots_end[];
}

namespace terse::interpose {
namespace {

// Return type of each slot's function, in the order of functions.inc.
enum class Returns { result, text, number, nothing };  // NOLINT: words of functions.inc
constexpr struct Function {
  const char* name;
  Returns returns;
} kFunctions[] = {
#define NCCL_FUNCTION(name, whose, returns) {#name, Returns::returns},
#include "interpose/functions.inc"
#undef NCCL_FUNCTION
};

// Stores what other threads jump through.
template <class T>
void store(T& place, T value) {
  std::atomic_ref(place).store(value, std::memory_order_release);
}

Image image_at(const void* address) {
  const ObjectRange range = object_range(address);
  return {range.begin, range.end - range.begin};
}

// Called in place of a function that NCCL lacks, after the message was written.
ncclResult_t refuse_usage() { return ncclInvalidUsage; }
ncclResult_t refuse_system() { return ncclSystemError; }
const char* refuse_text() { return "unknown: there is no NCCL that could say it"; }
struct Nothing {
  uint64_t words[2];
};
Nothing refuse_all() { return {}; }

const Function& function_of(const Slot* slot) { return kFunctions[slot - terse_slots]; }

// NCCL's function, or null.
void* resolve(const Slot* slot) {
  return nccl_function(next().library->found.handle, function_of(slot).name);
}

void* refusal(const Slot* slot) noexcept {
  const Function& function = function_of(slot);
  const ncclResult_t result = own(
      function.name,
      [](void* name) -> ncclResult_t { fail_lacking(static_cast<const char*>(name)); },
      const_cast<char*>(function.name));
  if (function.returns == Returns::text) return reinterpret_cast<void*>(refuse_text);
  if (function.returns != Returns::result) return reinterpret_cast<void*>(refuse_all);
  return reinterpret_cast<void*>(result == ncclInvalidUsage ? refuse_usage : refuse_system);
}

}  // namespace

const char* name_of(const Slot& slot) { return function_of(&slot).name; }

const Slot* slot_of(const char* name) {
  for (const Slot& slot : std::span(terse_slots, terse_slots_end))
    if (std::strcmp(function_of(&slot).name, name) == 0) return &slot;
  return nullptr;
}

void bind_entries(const NcclLibrary& library) {
  for (Slot& slot : std::span(terse_slots, terse_slots_end))
    if (void* function = nccl_function(library.found.handle, name_of(slot)))
      store(slot.target, function);
  const void* const in_nccl = nccl_function(library.found.handle, kNcclFunction);
  const Image own = image_at(terse_slots);
  store(terse_images[1].begin, own.begin);
  store(terse_images[1].size, own.size);
  // Calls of an NCCL inside a larger library cannot be told from that library's.
  const Image nccl = library.found.embedded ? Image{} : image_at(in_nccl);
  // The size last, by which the entries know that the slots are ready.
  store(terse_images[0].begin, nccl.begin);
  store(terse_images[0].size, nccl.size);
}

}  // namespace terse::interpose

using namespace terse::interpose;

// Returns the address to jump to for an unbound slot.
extern "C" void* terse_bind(const Slot* slot) noexcept {
  try {
    if (void* function = resolve(slot)) return function;
  } catch (const std::exception&) {
    // the refusal says it
  }
  return refusal(slot);
}

// terse_bind() for a call of ours that may come from anywhere, as NCCL's place is not known yet.
extern "C" void* terse_enter(const Slot* slot) noexcept {
  try {
    if (resolve(slot) != nullptr) return slot->entry;
  } catch (const std::exception&) {
    // the function itself says it
  }
  return slot->own;
}
