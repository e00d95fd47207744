#include "nccl_choice.h"

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "environment.h"

namespace terse::perf {
namespace {

// The file of the NCCL that this program is linked with; its functions may be a preloaded
// library's.
std::string LibraryInUse() {
  void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return "";
  const link_map* object = nullptr;
  const bool known = dlinfo(library, RTLD_DI_LINKMAP, &object) == 0;
  const std::string path = known ? object->l_name : "";
  dlclose(library);
  return path;
}

bool HasFunction(const std::string& path, const char* name) {
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  const bool found = dlsym(library, name) != nullptr;
  dlclose(library);
  return found;
}

// hostnccl, or the stub that stands in for it: what lies beside this program.
bool UsesItsOwn() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto own = program.parent_path().parent_path() / "lib/terse/hostnccl/libnccl.so.2";
  return std::filesystem::equivalent(own, LibraryInUse(), error);
}

bool HasGpu() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

std::vector<std::string> LinesOf(const char* command) {
  std::vector<std::string> lines;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command, "r"), pclose);
  char line[4096];
  while (pipe != nullptr && std::fgets(line, sizeof(line), pipe.get()) != nullptr) {
    lines.emplace_back(line, std::strcspn(line, "\n"));
  }
  return lines;
}

std::optional<std::string> FindRealNccl() {
  std::vector<std::string> paths = LinesOf(
      "{ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | "
      "sed -n 's/^\\s*libnccl\\.so\\.2 .*=> //p'");
  for (const std::string& folder :
       LinesOf("python3 -c 'import importlib.util as u; s = u.find_spec(\"nvidia.nccl\"); "
               "print(*(s.submodule_search_locations if s else []), sep=\"\\n\")' 2>/dev/null")) {
    paths.push_back(folder + "/lib/libnccl.so.2");
  }
  for (const std::string& path : paths) {
    if (HasFunction(path, "ncclCommInitRank") && !HasFunction(path, "hostncclStreamCreate")) {
      return path;
    }
  }
  return std::nullopt;
}

}  // namespace

bool NcclWorksOnHost() {
  static const bool on_host = HasFunction(LibraryInUse(), "hostncclStreamCreate");
  return on_host;
}

void UseNcclOfGpu(const std::vector<std::string>& command_line) {
  if (NcclIsChosen() || !UsesItsOwn() || !HasGpu()) return;
  const std::optional<std::string> library = FindRealNccl();
  if (library.has_value()) RestartWithNccl(*library, command_line);
}

}  // namespace terse::perf
