#include "backend/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

namespace terse {
namespace {

// First number of the line that begins with `name`; empty: there is none.
std::optional<uint64_t> number_of(const char* path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name) && line.size() > name.size())
      return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  return {};
}

}  // namespace

Mapping::~Mapping() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

bool Mapping::map(int file, size_t bytes) {
  void* const begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (begin == MAP_FAILED) return false;
  begin_ = static_cast<char*>(begin);
  bytes_ = bytes;
  return true;
}

uint64_t free_bytes() {
  uint64_t left = number_of("/proc/meminfo", "MemAvailable:").value_or(~uint64_t{0} >> 10) << 10;
  const std::optional<uint64_t> limit = number_of("/sys/fs/cgroup/memory.max", "");
  const std::optional<uint64_t> used = number_of("/sys/fs/cgroup/memory.current", "");
  if (!limit || *limit == 0 || !used) return left;
  const uint64_t cache = number_of("/sys/fs/cgroup/memory.stat", "inactive_file ").value_or(0);
  const uint64_t kept = *used - std::min(*used, cache);
  return std::min(left, *limit - std::min(*limit, kept));
}

}  // namespace terse
