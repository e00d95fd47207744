// Memory: garbage at first, between guards that must be intact in the end.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "counts.h"
#include "state.h"

using namespace terse::fake;

namespace {

constexpr std::align_val_t kAlignment{256};
constexpr size_t kGuard = 256;
constexpr int kGarbage = 0xa5, kGuardByte = 0x5c, kFreed = 0xdd;

struct Allocation {
  size_t bytes;
  int file;  // -1: none
};

struct Allocations {
  std::mutex mutex;
  std::unordered_map<void*, Allocation> all;
  std::unordered_map<void*, size_t> opened;  // by another process's handle: bytes with the guards
};

Allocations& allocations() {
  static Allocations& a = *new Allocations;
  return a;
}

// Whether `memory` is the runtime's own, of the device or page-locked.
bool is_allocated(const void* memory) {
  Allocations& a = allocations();
  const std::lock_guard lock(a.mutex);
  const auto* at = static_cast<const char*>(memory);
  return std::ranges::any_of(a.all, [&](const auto& allocation) {
    const auto* begin = static_cast<const char*>(allocation.first);
    return begin <= at && at < begin + allocation.second.bytes;
  });
}

bool intact(const char* guard) {
  return std::all_of(guard, guard + kGuard,
                     [](char c) { return static_cast<unsigned char>(c) == kGuardByte; });
}

// Allocations of that size another process can open: as a file, which it finds by /proc.
constexpr size_t kShareable = size_t{256} << 10;

struct IpcHandle {
  int64_t process, file;
  uint64_t bytes;  // with the guards
};
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

// Returns memory of a file, or null.
char* map_file(int file, size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

cudaError_t allocate(void** memory, size_t bytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t refused = check_capture_mode()) return refused;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > size_t{1} << 40) return cudaErrorMemoryAllocation;
  const size_t all = bytes + 2 * kGuard;
  const int file = bytes < kShareable ? -1 : memfd_create("fakecuda", MFD_CLOEXEC);
  char* base = nullptr;
  if (file < 0)
    base = static_cast<char*>(::operator new(all, kAlignment, std::nothrow));
  else if (ftruncate(file, static_cast<off_t>(all)) == 0)
    base = map_file(file, all);
  if (base == nullptr) return cudaErrorMemoryAllocation;
  std::memset(base, kGuardByte, bytes + 2 * kGuard);
  std::memset(base + kGuard, kGarbage, bytes);
  *memory = base + kGuard;
  Allocations& a = allocations();
  const std::lock_guard lock(a.mutex);
  a.all[*memory] = {bytes, file};
  ++state().allocations;
  return cudaSuccess;
}

// As CUDA does before it frees: for what runs on the device and on its peers.
void wait_for_all_devices() {
  std::vector<cudaStream_t> streams;
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    for (const auto& [handle, stream] : s.streams) streams.push_back(handle);
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (const cudaStream_t stream : streams)
    while (!is_default(stream) && host().StreamQuery(stream) == ncclInProgress) {
      if (std::chrono::steady_clock::now() > limit) {
        std::fprintf(stderr, "cudaFree waits for a stream that does not end\n");
        std::abort();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
}

cudaError_t release(void* memory) {
  if (const cudaError_t refused = check_capture_mode()) return refused;
  if (memory == nullptr) return cudaSuccess;
  wait_for_all_devices();
  Allocation found{};
  {
    Allocations& a = allocations();
    const std::lock_guard lock(a.mutex);
    const auto known = a.all.find(memory);
    if (known == a.all.end()) return cudaErrorInvalidValue;
    found = known->second;
    a.all.erase(known);
  }
  const auto [bytes, file] = found;
  --state().allocations;
  char* base = static_cast<char*>(memory) - kGuard;
  if (!intact(base) || !intact(base + kGuard + bytes)) {
    std::fprintf(stderr, "something was written beside an allocation of %zu bytes\n", bytes);
    std::abort();
  }
  if (file >= 0) {
    munmap(base, bytes + 2 * kGuard);
    close(file);
    return cudaSuccess;
  }
  std::memset(base, kFreed, bytes + 2 * kGuard);
  ::operator delete(base, kAlignment);
  return cudaSuccess;
}

}  // namespace

extern "C" {

TERSE_FAKE cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return call("cudaMalloc", [&] { return allocate(memory, bytes); });
}

TERSE_FAKE cudaError_t cudaFree(void* memory) {
  return call("cudaFree", [&] { return release(memory); });
}

TERSE_FAKE cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  return call("cudaIpcGetMemHandle", [&] {
    Allocations& a = allocations();
    const std::lock_guard lock(a.mutex);
    const auto known = a.all.find(memory);
    if (handle == nullptr || known == a.all.end() || known->second.file < 0)
      return cudaErrorInvalidValue;
    const IpcHandle own{getpid(), known->second.file, known->second.bytes + 2 * kGuard};
    std::memset(handle, 0, sizeof *handle);
    std::memcpy(handle, &own, sizeof own);
    return cudaSuccess;
  });
}

// Not in the process that has exported the memory, as in CUDA.
TERSE_FAKE cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle,
                                            unsigned flags) {
  return call("cudaIpcOpenMemHandle", [&] {
    IpcHandle theirs;
    std::memcpy(&theirs, &handle, sizeof theirs);
    if (memory == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
    if (theirs.process == getpid()) return cudaErrorDeviceUninitialized;
    if (const cudaError_t refused = check_capture_mode()) return refused;
    const std::string path =
        "/proc/" + std::to_string(theirs.process) + "/fd/" + std::to_string(theirs.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return cudaErrorMapBufferObjectFailed;
    char* const base = map_file(file, theirs.bytes);
    close(file);
    if (base == nullptr) return cudaErrorMapBufferObjectFailed;
    *memory = base + kGuard;
    Allocations& a = allocations();
    const std::lock_guard lock(a.mutex);
    a.opened[*memory] = theirs.bytes;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaIpcCloseMemHandle(void* memory) {
  return call("cudaIpcCloseMemHandle", [&] {
    Allocations& a = allocations();
    const std::lock_guard lock(a.mutex);
    const auto known = a.opened.find(memory);
    if (known == a.opened.end()) return cudaErrorInvalidValue;
    munmap(static_cast<char*>(memory) - kGuard, known->second);
    a.opened.erase(known);
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  return call("cudaHostAlloc", [&] {
    const bool known = (flags & ~unsigned{cudaHostAllocPortable | cudaHostAllocMapped}) == 0;
    return known ? allocate(memory, bytes) : cudaErrorInvalidValue;
  });
}

TERSE_FAKE cudaError_t cudaFreeHost(void* memory) {
  return call("cudaFreeHost", [&] { return release(memory); });
}

TERSE_FAKE cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                                       cudaMemcpyKind kind, cudaStream_t stream) {
  return call("cudaMemcpyAsync", [&] {
    if (bytes == 0) return cudaSuccess;
    if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    struct Copy {
      void* to;
      const void* from;
      size_t bytes;
      std::shared_ptr<TrafficCount> traffic;
      std::vector<char> staged;
    };
    // Pageable memory of the host may change, and go, when the call has returned; a graph uses it
    // as it runs.
    const bool captured = capture_of(stream) != 0;
    const bool stages = kind == cudaMemcpyHostToDevice && !captured;
    const bool waits = kind == cudaMemcpyDeviceToHost && !captured && !is_allocated(to);
    const cudaError_t submitted = submit(stream, [=, traffic = traffic_count()](cudaStream_t on) {
      auto copy = std::make_unique<Copy>(Copy{to, from, bytes, traffic, {}});
      if (stages) {
        copy->staged.assign(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
        copy->from = copy->staged.data();
      }
      const auto run = [](void* context) {
        const std::unique_ptr<Copy> c(static_cast<Copy*>(context));
        std::memcpy(c->to, c->from, c->bytes);
        c->traffic->add({c->bytes, c->bytes});
      };
      return translate(host().LaunchHostFunc(on, run, copy.release()));
    });
    if (submitted != cudaSuccess || !waits) return submitted;
    return translate(host().StreamSynchronize(stream));
  });
}

// Within the device.
TERSE_FAKE cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from,
                                         size_t from_pitch, size_t width, size_t height,
                                         cudaMemcpyKind, cudaStream_t stream) {
  return call("cudaMemcpy2DAsync", [&] {
    constexpr size_t kMaxPitch = 0x7fffffff;
    if (width == 0 || height == 0) return cudaSuccess;
    if (to == nullptr || from == nullptr) return cudaErrorInvalidValue;
    if (width > std::min(to_pitch, from_pitch)) return cudaErrorInvalidPitchValue;
    if (std::max(to_pitch, from_pitch) > kMaxPitch) return cudaErrorInvalidPitchValue;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    struct Rows {
      void* to;
      const void* from;
      size_t to_pitch, from_pitch, width, height;
      std::shared_ptr<TrafficCount> traffic;
    };
    return submit(stream, [=, traffic = traffic_count()](cudaStream_t on) {
      auto rows =
          std::make_unique<Rows>(Rows{to, from, to_pitch, from_pitch, width, height, traffic});
      const auto run = [](void* context) {
        const std::unique_ptr<Rows> r(static_cast<Rows*>(context));
        for (size_t i = 0; i < r->height; ++i)
          std::memcpy(static_cast<char*>(r->to) + i * r->to_pitch,
                      static_cast<const char*>(r->from) + i * r->from_pitch, r->width);
        r->traffic->add({r->width * r->height, r->width * r->height});
      };
      return translate(host().LaunchHostFunc(on, run, rows.release()));
    });
  });
}

}  // extern "C"
