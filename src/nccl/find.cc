#include "nccl/find.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/first_made.h"
#include "nccl/objects.h"

namespace terse {
namespace {

constexpr const char* kSoname = "libnccl.so.2";

bool is_named_nccl(const std::string& path) {
  return std::filesystem::path(path).filename().string().starts_with("libnccl");
}

// Returns true if the program allocates by another library than libc: jemalloc, a sanitizer's
// run-time.
bool has_its_own_malloc() {
  const ObjectRange libc = object_range(find_symbol(RTLD_DEFAULT, "__libc_start_main"));
  return object_range(find_symbol(RTLD_DEFAULT, "malloc")).begin != libc.begin;
}

// A library that we open resolves its own names first, so that its calls of itself do not come to
// the preload library. Not where it would free by libc what libc has allocated by another malloc:
// then return addresses alone must do.
int flags_of_our_own() {
  return RTLD_NOW | RTLD_LOCAL | (has_its_own_malloc() ? 0 : RTLD_DEEPBIND);
}

thread_local bool t_opening = false;

void* open_ours(const char* path) {
  t_opening = true;
  void* const handle = dlopen(path, flags_of_our_own());
  t_opening = false;
  return handle;
}

bool is_interposer(const void* function) {
  void* object = dlopen(object_path(function).c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (object == nullptr) return false;
  const void* mark = find_symbol(object, kInterposerMark);
  dlclose(object);
  return mark != nullptr && object_range(mark).begin == object_range(function).begin;
}

// Returns true if the handle has NCCL, and not by way of the preload library.
bool has_nccl(void* handle) {
  const void* function = find_symbol(handle, kNcclFunction);
  return function != nullptr && !is_interposer(function);
}

// The memory of the preload library that the process has been started with; empty: of none.
const ObjectRange& interposer() noexcept {
  static constinit std::atomic<const ObjectRange*> place{nullptr};
  return first_made(place, [] { return object_range(find_symbol(RTLD_DEFAULT, kInterposerMark)); });
}

void* keep_nccl(void* handle) {
  if (handle == nullptr || has_nccl(handle)) return handle;
  dlclose(handle);
  return nullptr;
}

using Tried = std::vector<std::string>;

void* loaded_by_name(Tried& tried) {
  tried.push_back("a libnccl.so.2 that is loaded");
  if (void* handle = keep_nccl(dlopen(kSoname, RTLD_NOW | RTLD_NOLOAD))) return handle;
  for (const std::string& path : loaded_objects())
    if (is_named_nccl(path))
      if (void* handle = keep_nccl(dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD))) return handle;
  return nullptr;
}

void* next_in_order(Tried& tried) {
  tried.push_back("the program's own symbols");
  const void* function = find_symbol(RTLD_NEXT, kNcclFunction);
  if (function == nullptr || is_interposer(function)) return nullptr;
  return keep_nccl(dlopen(object_path(function).c_str(), RTLD_NOW | RTLD_NOLOAD));
}

void* embedded(Tried& tried) {
  tried.push_back("the libraries that are loaded");
  std::vector<std::string> paths = loaded_objects();
  paths.insert(paths.begin(), "");  // the program itself; its handle finds what it links, too
  for (const std::string& path : paths) {
    void* handle = keep_nccl(dlopen(path.empty() ? nullptr : path.c_str(), RTLD_NOW | RTLD_NOLOAD));
    if (handle != nullptr) return handle;
  }
  return nullptr;
}

void* open_first(const std::vector<std::string>& paths, Tried& tried) {
  for (const std::string& path : paths) {
    tried.push_back(path);
    if (void* handle = keep_nccl(open_ours(path.c_str()))) return handle;
  }
  return nullptr;
}

void* wheel_of_loaded(Tried& tried) {
  std::vector<std::string> folders;
  for (const std::string& path : loaded_objects())
    for (const char* packages : {"/site-packages/", "/dist-packages/"}) {
      const size_t at = path.find(packages);
      if (at == path.npos) continue;
      const std::string folder = path.substr(0, at + std::string_view(packages).size() - 1);
      if (std::find(folders.begin(), folders.end(), folder) == folders.end())
        folders.push_back(folder);
    }
  return open_first(nccl_of_packages(folders), tried);
}

void* loaders_own(Tried& tried) { return open_first({kSoname}, tried); }

// Reads Python's variables, which are not settings of terse.
void* wheel_of_environment(Tried& tried) {
  std::vector<std::string> folders;
  if (const char* prefix = std::getenv("VIRTUAL_ENV")) folders = package_folders(prefix);
  if (const char* path = std::getenv("PYTHONPATH")) {
    std::istringstream parts(path);
    for (std::string folder; std::getline(parts, folder, ':');)
      if (!folder.empty()) folders.push_back(folder);
  }
  return open_first(nccl_of_packages(folders), tried);
}

constexpr void* (*kWays[])(Tried&) = {loaded_by_name,  next_in_order, embedded,
                                      wheel_of_loaded, loaders_own,   wheel_of_environment};

FoundNccl describe(void* handle, bool named) {
  std::string path = object_path(find_symbol(handle, kNcclFunction));
  const bool embedded = !named && !is_named_nccl(path);
  return {handle, std::move(path), embedded};
}

}  // namespace

void* nccl_function(void* handle, const char* name) noexcept {
  void* const function = find_symbol(handle, name);
  const auto address = reinterpret_cast<uintptr_t>(function);
  const bool is_ours = interposer().begin <= address && address < interposer().end;
  return is_ours ? nullptr : function;
}

bool is_opening_nccl() noexcept { return t_opening; }

FoundNccl find_nccl(const std::string& wanted) {
  if (!wanted.empty()) {
    void* handle = dlopen(wanted.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (handle == nullptr) handle = open_ours(wanted.c_str());
    if (handle == nullptr) fail(ncclSystemError, "TERSE_NCCL: {}", dlerror());
    if (!has_nccl(handle))
      fail(ncclSystemError, "TERSE_NCCL: {} is no NCCL: it has no {} of its own", wanted,
           kNcclFunction);
    return describe(handle, true);
  }
  Tried tried;
  for (const auto way : kWays)
    if (void* handle = way(tried)) return describe(handle, false);
  fail(ncclSystemError, "no NCCL was found; looked for {}; set TERSE_NCCL to its path",
       fmt::join(tried, ", "));
}

std::vector<std::string> package_folders(const std::string& prefix, const std::string& release) {
  const auto serves = [&](const std::string& folder) {
    if (release.empty()) return folder.starts_with("python3");
    return folder == release || folder == "python3";  // Debian's packages are for all releases
  };
  std::vector<std::string> folders;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(prefix + "/lib", ignored))
    if (serves(entry.path().filename()))
      for (const char* packages : {"site-packages", "dist-packages"})
        folders.push_back(entry.path() / packages);
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::vector<std::string> nccl_of_packages(const std::vector<std::string>& folders) {
  std::vector<std::string> paths;
  for (const std::string& folder : folders) {
    const std::filesystem::path path =
        std::filesystem::path(folder) / "nvidia/nccl/lib/libnccl.so.2";
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) paths.push_back(path);
  }
  return paths;
}

}  // namespace terse
