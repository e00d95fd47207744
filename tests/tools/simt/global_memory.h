// The memory outside a kernel that it may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "site.h"

namespace terse::simt {

enum class Access { kReadOnly, kReadWrite };

// While it lives, kernels that this OS thread runs may access the range. As long as there is none
// at all, they may access everything. Ranges may overlap: an access must lie within one that allows
// it.
class Memory {
 public:
  Memory(const void* data, size_t bytes, Access access, std::string name);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  uintptr_t begin() const { return begin_; }
  uintptr_t end() const { return begin_ + bytes_; }
  size_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }
  const std::string& name() const { return name_; }

 private:
  uintptr_t begin_;
  size_t bytes_;
  bool writable_;
  std::string name_;
};

// Bytes of global memory that loads asked for and stores gave, each time they did; atomic
// operations do both. A GPU's caches may save it some of them.
struct Traffic {
  uint64_t read = 0, written = 0;
};
// Traffic of the kernels that this OS thread has run.
inline constinit thread_local Traffic traffic;

namespace internal {

enum class Operation { kLoad, kStore, kAtomicAdd, kAtomicMax };

// Addresses known to be allowed: the range that the last access was in.
struct Window {
  uintptr_t begin = 0, end = UINTPTR_MAX;
  bool has(uintptr_t address, size_t bytes) const {
    return address >= begin && bytes <= end - begin && address - begin <= end - begin - bytes;
  }
};
inline constinit thread_local Window readable, writable;

// Moves the window to the access's range. Returns what is wrong if there is none, or if the address
// is no multiple of `bytes`; else an empty text.
std::string why_refused(Operation operation, uintptr_t address, size_t bytes);

// Throws that as a Fault of the thread that runs.
void find_window(Operation operation, uintptr_t address, size_t bytes, Site site);

inline void check_global(Operation operation, const void* data, size_t bytes, Site site) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(data);
  const Window& window = operation == Operation::kLoad ? readable : writable;
  if ((address & (bytes - 1)) != 0 || !window.has(address, bytes)) [[unlikely]]
    find_window(operation, address, bytes, site);
  if (operation != Operation::kStore) traffic.read += bytes;
  if (operation != Operation::kLoad) traffic.written += bytes;
}

}  // namespace internal
}  // namespace terse::simt
