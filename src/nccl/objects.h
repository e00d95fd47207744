// The shared objects of this process, as the loader knows them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terse {

// libc's dlsym, also where the preload library stands in front of it.
void* find_symbol(void* handle, const char* name) noexcept;

template <class Function>
bool find_symbol(void* handle, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(find_symbol(handle, name));
  return function != nullptr;
}

// The file that `address` was loaded from, "" where none is known.
std::string object_path(const void* address);

// The memory of the object that holds `address`; empty where none does.
struct ObjectRange {
  uintptr_t begin = 0, end = 0;
};
ObjectRange object_range(const void* address) noexcept;

// The files of all objects, in the order of loading.
std::vector<std::string> loaded_objects();

}  // namespace terse
