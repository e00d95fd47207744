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
std::string library_in_use() {
  void* const library = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return "";
  const link_map* object = nullptr;
  const bool known = dlinfo(library, RTLD_DI_LINKMAP, &object) == 0;
  const std::string path = known ? object->l_name : "";
  dlclose(library);
  return path;
}

bool has_function(const std::string& path, const char* name) {
  void* const library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  const bool found = dlsym(library, name) != nullptr;
  dlclose(library);
  return found;
}

// hostnccl, or the stub that stands in for it: what lies beside this program.
bool uses_its_own() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto own = program.parent_path().parent_path() / "lib/terse/hostnccl/libnccl.so.2";
  return std::filesystem::equivalent(own, library_in_use(), error);
}

bool has_gpu() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return false;
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
  int devices = 0;
  return init != nullptr && count != nullptr && init(0) == 0 && count(&devices) == 0 && devices > 0;
}

std::vector<std::string> lines_of(const char* command) {
  std::vector<std::string> lines;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command, "r"), pclose);
  char line[4096];
  while (pipe != nullptr && std::fgets(line, sizeof(line), pipe.get()) != nullptr) {
    lines.emplace_back(line, std::strcspn(line, "\n"));
  }
  return lines;
}

std::optional<std::string> find_real_nccl() {
  std::vector<std::string> paths = lines_of(
      "{ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | "
      "sed -n 's/^\\s*libnccl\\.so\\.2 .*=> //p'");
  for (const std::string& folder :
       lines_of("python3 -c 'import importlib.util as u; s = u.find_spec(\"nvidia.nccl\"); "
                "print(*(s.submodule_search_locations if s else []), sep=\"\\n\")' 2>/dev/null")) {
    paths.push_back(folder + "/lib/libnccl.so.2");
  }
  for (const std::string& path : paths) {
    if (has_function(path, "ncclCommInitRank") && !has_function(path, "hostncclStreamCreate")) {
      return path;
    }
  }
  return std::nullopt;
}

}  // namespace

bool nccl_works_on_host() {
  static const bool on_host = has_function(library_in_use(), "hostncclStreamCreate");
  return on_host;
}

void use_nccl_of_gpu(const std::vector<std::string>& command_line) {
  if (nccl_is_chosen() || !uses_its_own() || !has_gpu()) return;
  const std::optional<std::string> library = find_real_nccl();
  if (library.has_value()) restart_with_nccl(*library, command_line);
}

}  // namespace terse::perf
