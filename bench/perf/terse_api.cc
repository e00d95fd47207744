#include "terse_api.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace terse::perf {
namespace {

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error)
    paths.push_back((program.parent_path().parent_path() / "lib" / TERSE_LIBRARY).string());
  paths.push_back(TERSE_LIBRARY);
  return paths;
}

void* open_terse() {
  std::string tried;
  for (const std::string& path : candidates()) {
    if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += std::string("\n  ") + dlerror();
  }
  throw std::runtime_error("--scheme needs libterse.so, which was not found:" + tried);
}

template <typename Function>
void find(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) throw std::runtime_error(std::string("libterse.so lacks ") + name);
}

}  // namespace

const TerseApi& load_terse() {
  static const TerseApi api = [] {
    void* library = open_terse();
    TerseApi table = {};
    find(library, "terseSchemeParse", &table.scheme_parse);
    find(library, "terseSchemeDestroy", &table.scheme_destroy);
    find(library, "terseSchemePrint", &table.scheme_print);
    find(library, "terseAllReduce", &table.all_reduce);
    find(library, "terseAllGather", &table.all_gather);
    find(library, "terseReduceScatter", &table.reduce_scatter);
    find(library, "terseBroadcast", &table.broadcast);
    find(library, "terseReduce", &table.reduce);
    find(library, "terseAllToAll", &table.all_to_all);
    find(library, "terseGather", &table.gather);
    find(library, "terseScatter", &table.scatter);
    find(library, "terseSend", &table.send);
    find(library, "terseRecv", &table.recv);
    find(library, "terseGroupStart", &table.group_start);
    find(library, "terseGroupEnd", &table.group_end);
    find(library, "terseCommRelease", &table.comm_release);
    find(library, "terseCommGetStats", &table.comm_get_stats);
    find(library, "terseGetLastError", &table.get_last_error);
    return table;
  }();
  return api;
}

Scheme::Scheme(const TerseApi& api, const std::string& text)
    : api_(api), handle_(nullptr, api.scheme_destroy) {
  terseScheme_t* handle = nullptr;
  if (api.scheme_parse(text.c_str(), &handle) != ncclSuccess) {
    throw std::invalid_argument("--scheme " + text + ": " + api.get_last_error());
  }
  handle_.reset(handle);
  std::array<char, 256> canonical;  // with all options
  if (api.scheme_print(handle, canonical.data(), canonical.size()) != ncclSuccess) {
    throw std::invalid_argument("--scheme " + text + ": " + api.get_last_error());
  }
  text_ = canonical.data();
}

}  // namespace terse::perf
