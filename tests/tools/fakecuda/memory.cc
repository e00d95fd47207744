// Memory: garbage at first, between guards that must be intact in the end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
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

struct Allocations {
  std::mutex mutex;
  std::unordered_map<void*, size_t> bytes;
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
  return std::ranges::any_of(a.bytes, [&](const auto& allocation) {
    const auto* begin = static_cast<const char*>(allocation.first);
    return begin <= at && at < begin + allocation.second;
  });
}

bool intact(const char* guard) {
  return std::all_of(guard, guard + kGuard,
                     [](char c) { return static_cast<unsigned char>(c) == kGuardByte; });
}

cudaError_t allocate(void** memory, size_t bytes) {
  if (memory == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t refused = check_capture_mode()) return refused;
  *memory = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > size_t{1} << 40) return cudaErrorMemoryAllocation;
  auto* base = static_cast<char*>(::operator new(bytes + 2 * kGuard, kAlignment, std::nothrow));
  if (base == nullptr) return cudaErrorMemoryAllocation;
  std::memset(base, kGuardByte, bytes + 2 * kGuard);
  std::memset(base + kGuard, kGarbage, bytes);
  *memory = base + kGuard;
  Allocations& a = allocations();
  const std::lock_guard lock(a.mutex);
  a.bytes[*memory] = bytes;
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
  size_t bytes = 0;
  {
    Allocations& a = allocations();
    const std::lock_guard lock(a.mutex);
    const auto known = a.bytes.find(memory);
    if (known == a.bytes.end()) return cudaErrorInvalidValue;
    bytes = known->second;
    a.bytes.erase(known);
  }
  --state().allocations;
  char* base = static_cast<char*>(memory) - kGuard;
  if (!intact(base) || !intact(base + kGuard + bytes)) {
    std::fprintf(stderr, "something was written beside an allocation of %zu bytes\n", bytes);
    std::abort();
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
