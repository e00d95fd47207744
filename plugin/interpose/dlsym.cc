// dlsym, for clients that open NCCL themselves and look its functions up on the handle, such as
// ctypes, vLLM, JAX and CuPy. The entry (entries.S) passes only names that begin with nccl or
// pnccl, on real handles; all else is libc's.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "base/log.h"
#include "interpose/entry_slots.h"
#include "interpose/next.h"
#include "nccl/objects.h"
#include "policy/settings.h"

namespace terse::interpose {
namespace {

bool lies_in(uintptr_t address, const ObjectRange& range) {
  return range.begin <= address && address < range.end;
}

bool lies_in_libnccl(const void* function) {
  return std::filesystem::path(object_path(function)).filename().string().starts_with("libnccl.so");
}

bool is_alias(const char* name) { return name[0] == 'p'; }

void warn_of_second(const void* function) {
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true))
    log(LogLevel::kWarn,
        "the program opened {} while {} is in use: calls of the former are not compressed; "
        "TERSE_NCCL names the one to use for all",
        object_path(function), next().library->found.path);
}

// Result of a look-up of `name` that found `function`. Null: NCCL has no such function. A pnccl
// name is always NCCL's own function.
void* redirect(const Slot& slot, const char* name, void* function, uintptr_t caller) {
  const FoundNccl& nccl = next().library->found;
  void* const nccls = find_symbol(nccl.handle, name);
  void* const given = is_alias(name) ? nccls : slot.entry;
  // A facade's handle (terse run) finds our own entry, even if NCCL has no such function.
  if (lies_in(reinterpret_cast<uintptr_t>(function), object_range(slot.entry)))
    return nccls != nullptr ? given : nullptr;
  const ObjectRange used = object_range(find_symbol(nccl.handle, kNcclFunction));
  const bool of_used = lies_in(reinterpret_cast<uintptr_t>(function), used);  // by whatever name
  if (!of_used && !lies_in_libnccl(function)) return function;
  if (lies_in(caller, used)) return function;
  if (of_used) return slot.own != nullptr ? given : function;
  // Gives all functions of one library, or none: its handles must not reach another one.
  if (!settings().nccl.empty()) return given;
  warn_of_second(function);
  return function;
}

}  // namespace
}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;

extern "C" void* terse_dlsym(void* handle, const char* name, uintptr_t caller) noexcept {
  thread_local bool busy = false;  // a library being opened looks symbols up, too
  void* function = find_symbol(handle, name);
  if (function == nullptr || busy) return function;  // dlerror() says why
  const Slot* slot = slot_of(is_alias(name) ? name + 1 : name);
  if (slot == nullptr) return function;
  busy = true;
  try {
    void* given = redirect(*slot, name, function, caller);
    dlerror();  // hides our attempts from the caller
    function = given != nullptr ? given : find_symbol(next().library->found.handle, name);
  } catch (const std::exception&) {
    dlerror();
  }
  busy = false;
  return function;
}

extern "C" __attribute__((visibility("default"))) void terseInterposerMark() {}
