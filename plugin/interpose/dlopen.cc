// dlopen with RTLD_DEEPBIND: a library opened so, and linked to an NCCL, calls that one past us. We
// can only warn; a facade in front (terse run) catches it.
//
// The entry (entries.S) notes what is opened, and leaves the opening to libc for the caller. The
// next open or look-up examines it.
#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "interpose/entry_slots.h"
#include "nccl/find.h"
#include "nccl/objects.h"
#include "policy/settings.h"

// Defined in entries.S.
extern "C" {
extern void* (*terse_next_dlopen)(const char* file, int mode);
extern uint64_t terse_unseen;  // set if there is something to examine
}

namespace terse::interpose {
namespace {

constexpr const char* kFunction = "ncclAllReduce";

struct Noted {
  std::mutex mutex;  // not held during the loader's calls, which have a lock of their own
  std::vector<std::string> files;
};

// Never destroyed: libraries may be opened while the program exits.
Noted& noted() {
  static Noted& n = *new Noted;
  return n;
}

// Handle of what is open already.
class Open {
 public:
  explicit Open(const char* file) : handle_(terse_next_dlopen(file, RTLD_LAZY | RTLD_NOLOAD)) {}
  ~Open() {
    if (handle_ != nullptr) dlclose(handle_);
    dlerror();  // hides our attempts from the caller
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  void* handle() const { return handle_; }

 private:
  void* const handle_;
};

// Skips an NCCL itself, which is caught at the look-up of its functions.
void look_at(const std::string& file) {
  const Open open(file.c_str());
  if (open.handle() == nullptr) return;
  void* const found = find_symbol(open.handle(), kFunction);
  if (found == nullptr || found == slot_of(kFunction)->entry) return;
  const std::string nccl = object_path(found);
  link_map* object = nullptr;
  if (dlinfo(open.handle(), RTLD_DI_LINKMAP, &object) != 0 || nccl == object->l_name) return;
  log(LogLevel::kWarn,
      "{} was opened with RTLD_DEEPBIND, and so calls {} past terse: uncompressed; `terse run "
      "--nccl {}` catches it",
      file, nccl, nccl);
}

void look() {
  std::vector<std::string> files;
  {
    const std::lock_guard lock(noted().mutex);
    std::atomic_ref(terse_unseen).store(0);
    files = std::exchange(noted().files, {});
  }
  for (const std::string& file : files) look_at(file);
}

// Skips what is open already, noted before or opened otherwise. An NCCL that terse opens may be
// linked to another one, which it calls on terse's behalf.
void note(const char* file) {
  if (is_opening_nccl()) return;
  if (!settings().policy.compresses() || Open(file).handle() != nullptr) return;
  const std::lock_guard lock(noted().mutex);
  noted().files.emplace_back(file);
  std::atomic_ref(terse_unseen).store(1);
}

}  // namespace
}  // namespace terse::interpose

using namespace terse::interpose;

// Both return the address to jump to.
extern "C" void* terse_note(const char* file) noexcept {
  try {
    note(file);
  } catch (const std::exception&) {
    // without memory there is no warning
  }
  return reinterpret_cast<void*>(terse_next_dlopen);
}

extern "C" void* terse_look(void* const* next) noexcept {
  try {
    look();
  } catch (const std::exception&) {
  }
  return *next;
}
