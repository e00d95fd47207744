// Place of the program's NCCL: the one that it would call without terse.
#pragma once

#include <string>
#include <vector>

namespace terse {

struct FoundNccl {
  void* handle = nullptr;
  std::string path;
  // NCCL is a part of some other library or of the program itself.
  bool embedded = false;
};

// `wanted` if not empty. Else, the first that there is of
//   the libnccl.so.2 that is loaded, or any loaded library of such a name;
//   what the program's symbols lead to next, after this library;
//   any loaded object that has NCCL in it;
//   the Python wheel's, beside what was loaded from a folder of Python packages;
//   the loader's libnccl.so.2;
//   the wheel's in the Python environment of VIRTUAL_ENV and PYTHONPATH.
// terse's own preload library, and a facade of it (terse run), is none of them. Throws
// Error(ncclSystemError) that lists what was tried.
FoundNccl find_nccl(const std::string& wanted);

// Returns true while this thread opens an NCCL by the dlopen() that the preload library has.
bool is_opening_nccl() noexcept;

// Paths at which Python's packages put NCCL, in these folders of packages ...
std::vector<std::string> nccl_of_packages(const std::vector<std::string>& folders);
// ... of an installation of Python, such as /usr or a virtual environment. One may hold several
// releases: `release`, such as python3.12, is for those of that one alone.
std::vector<std::string> package_folders(const std::string& prefix,
                                         const std::string& release = "");

// A function that every NCCL has.
inline constexpr const char* kNcclFunction = "ncclCommCount";

// The function by which the preload library is told from an NCCL.
inline constexpr const char* kInterposerMark = "terseInterposerMark";

// A function of the NCCL that was found in this handle; null where it has none of that name. Where
// that is the program itself, all libraries are looked through, too, and what the preload library
// has is no answer.
void* nccl_function(void* handle, const char* name) noexcept;

template <class Function>
bool nccl_function(void* handle, const char* name, Function& function) noexcept {
  function = reinterpret_cast<Function>(nccl_function(handle, name));
  return function != nullptr;
}

}  // namespace terse
