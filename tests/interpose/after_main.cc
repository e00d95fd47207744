// Communicators that a program ends, and groups that fail, when main() is over: in exit handlers,
// in static objects' destructors, and when a thread's own objects go. Nobody writes to memory that
// was freed.
#include <malloc.h>
#include <nccl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#ifndef __SANITIZE_ADDRESS__  // which has a heap of its own, and looks itself
#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define KEEPS_FREED
#endif
#endif

namespace {

// What was freed after that is kept, full of kFreed.
constexpr unsigned char kFreed = 0xdd;
std::atomic<bool> g_keeps{false};
std::atomic<size_t> g_kept{0};
void* g_freed[1 << 16];

}  // namespace

#ifdef KEEPS_FREED
extern "C" void __libc_free(void* memory);
extern "C" void free(void* memory) {
  if (memory == nullptr) return;
  const size_t place = g_keeps ? g_kept.fetch_add(1) : std::size(g_freed);
  if (place >= std::size(g_freed)) return __libc_free(memory);
  std::memset(memory, kFreed, malloc_usable_size(memory));
  g_freed[place] = memory;
}
#endif

namespace {

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not so: %s: %s\n", what, ncclGetLastError(nullptr));
  _exit(1);
}

void require_freed_unchanged() {
  for (size_t i = 0; i < std::min(g_kept.load(), std::size(g_freed)); ++i) {
    const auto* const bytes = static_cast<const unsigned char*>(g_freed[i]);
    must(std::all_of(bytes, bytes + malloc_usable_size(g_freed[i]),
                     [](unsigned char byte) { return byte == kFreed; }),
         "what was freed is as it was");
  }
}

// Made while hostnccl still makes any.
struct Communicators {
  ncclUniqueId later;
  ncclComm_t destroyed, aborted, used;
};

ncclUniqueId new_id() {
  ncclUniqueId id;
  must(ncclGetUniqueId(&id) == ncclSuccess, "an id");
  return id;
}

ncclComm_t made() {
  ncclComm_t comm = nullptr;
  must(ncclCommInitRank(&comm, 1, new_id(), 0) == ncclSuccess, "a communicator");
  return comm;
}

Communicators new_communicators() { return {new_id(), made(), made(), made()}; }

// What leaves something for later in the preload library, each; `whole`: hostnccl does all of it.
void use(const Communicators& c, bool whole) {
  float x[2] = {1, 2}, y[2] = {};
  const auto succeeds = [&](ncclResult_t result, const char* what) {
    must(result == ncclSuccess || !whole, what);
  };
  must(ncclCommDestroy(c.destroyed) == ncclSuccess, "destroyed");
  must(ncclCommAbort(c.aborted) == ncclSuccess, "aborted");

  ncclRedOp_t op;
  must(
      ncclRedOpCreatePreMulSum(&op, x, ncclFloat32, ncclScalarHostImmediate, c.used) == ncclSuccess,
      "an operator");
  must(ncclGroupStart() == ncclSuccess, "a group of its call");
  succeeds(ncclAllReduce(x, y, 2, ncclFloat32, op, c.used, nullptr), "the call");
  must(ncclRedOpDestroy(op, c.used) == ncclSuccess, "the operator is destroyed in the group");
  succeeds(ncclGroupEnd(), "the group's end");

  ncclComm_t grouped = nullptr;
  must(ncclGroupStart() == ncclSuccess, "a group of a new communicator");
  must(ncclCommInitRank(&grouped, 1, c.later, 0) == ncclSuccess, "made in a group");
  succeeds(ncclGroupEnd(), "the group's end");
  if (grouped != nullptr) must(ncclCommDestroy(grouped) == ncclSuccess, "destroyed");

  must(ncclGroupStart() == ncclSuccess, "a group that fails");
  must(ncclAllReduce(nullptr, y, 2, ncclFloat32, ncclSum, c.used, nullptr) != ncclSuccess,
       "no buffer");
  must(ncclGroupEnd() != ncclSuccess, "its end");
  must(std::strlen(ncclGetLastError(nullptr)) > 0, "its message");
  must(ncclCommDestroy(c.used) == ncclSuccess, "the rest");
}

struct Late {
  ~Late() {
    use(communicators, whole);
    require_freed_unchanged();
  }
  Communicators communicators = {};
  bool whole = false;
};
Late g_late;

}  // namespace

int main() {
  g_keeps = true;
  std::thread([] {
    thread_local Late late{.communicators = new_communicators(), .whole = true};
    use(new_communicators(), true);  // what that makes goes before `late`
  }).join();
  use(new_communicators(), true);
  must(std::atexit([] { use(new_communicators(), true); }) == 0, "a handler");
  g_late.communicators = new_communicators();
}
