#include "nccl/objects.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>

namespace terse {
namespace {

// The oldest version of dlsym: every glibc has it, and the preload library's has none.
#if defined(__x86_64__)
constexpr const char* kVersion = "GLIBC_2.2.5";
#else
constexpr const char* kVersion = "GLIBC_2.17";
#endif

template <class Visit>
void for_each_object(Visit visit) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* context) {
        (*static_cast<Visit*>(context))(*info);
        return 0;
      },
      &visit);
}

}  // namespace

void* find_symbol(void* handle, const char* name) noexcept {
  using Dlsym = void* (*)(void*, const char*);
  static constinit std::atomic<Dlsym> known{nullptr};  // no guard: first_made.h says why
  Dlsym libc = known.load(std::memory_order_relaxed);
  if (libc == nullptr) {
    const auto found = reinterpret_cast<Dlsym>(dlvsym(RTLD_DEFAULT, "dlsym", kVersion));
    libc = found != nullptr ? found : &dlsym;
    known.store(libc, std::memory_order_relaxed);
  }
  return libc(handle, name);
}

std::string object_path(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

ObjectRange object_range(const void* address) noexcept {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  ObjectRange result;
  for_each_object([&](const dl_phdr_info& object) {
    ObjectRange range{UINTPTR_MAX, 0};
    for (int i = 0; i < object.dlpi_phnum; ++i) {
      const ElfW(Phdr)& segment = object.dlpi_phdr[i];
      if (segment.p_type != PT_LOAD) continue;
      const uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
      range.begin = std::min(range.begin, begin);
      range.end = std::max<uintptr_t>(range.end, begin + segment.p_memsz);
    }
    if (range.begin <= wanted && wanted < range.end) result = range;
  });
  return result;
}

std::vector<std::string> loaded_objects() {
  std::vector<std::string> paths;
  for_each_object([&](const dl_phdr_info& object) {
    if (object.dlpi_name != nullptr && *object.dlpi_name != '\0') paths.push_back(object.dlpi_name);
  });
  return paths;
}

}  // namespace terse
