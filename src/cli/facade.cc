#include "cli/facade.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "policy/settings.h"

namespace terse::cli {
namespace {

namespace fs = std::filesystem;

// First bytes of every library, which the blank lacks.
const std::string kMagic = "\177ELF";

// Folder for facades. One that the user has named is an error if others may write to it; after any
// other error the next one is tried.
struct Cache {
  fs::path folder;
  bool named = false;
};

std::vector<Cache> caches() {
  std::vector<Cache> all;
  const auto absolute = [](const char* variable) -> const char* {
    const char* const path = std::getenv(variable);
    return path != nullptr && *path == '/' ? path : nullptr;
  };
  if (const char* cache = absolute("XDG_CACHE_HOME"))
    all.push_back({.folder = fs::path(cache) / "terse", .named = true});
  if (const char* home = absolute("HOME"))
    all.push_back({.folder = fs::path(home) / ".cache/terse"});
  const char* const temporary = absolute("TMPDIR");
  all.push_back({.folder = fs::path(temporary != nullptr ? temporary : "/tmp") /
                           fmt::format("terse-{}", getuid())});
  return all;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ncclSystemError, "{}: {}", path, std::strerror(errno));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes `path` over the name that begins with `mark`, which the linker left as a needed library's
// (plugin/facade).
void replace_name(std::string& file, const std::string& mark, const std::string& path) {
  const size_t at = file.find(mark);
  const size_t length = at == file.npos ? 0 : std::strlen(file.c_str() + at);
  if (length == 0 || file.find(mark, at + length) != file.npos)
    fail(ncclInternalError, "the blank facade has not one name {}...", mark);
  if (path.size() > length) fail(ncclInvalidUsage, "the path {} is too long", path);
  std::string padded = path;
  padded.resize(length, '\0');
  file.replace(at, length, padded);
}

std::string contents(const Facade& facade) {
  std::string file = kMagic + read_file(facade.blank);
  replace_name(file, "terse_facade_interposer_", facade.interposer);
  replace_name(file, "terse_facade_nccl_", facade.nccl);
  return file;
}

// Code is loaded from it: only the user may write there.
void make_private_folder(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail(ncclSystemError, "{}: {}", folder.string(), std::strerror(errno));
  struct stat status {};
  if (lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
      status.st_uid != getuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    fail(ncclInvalidUsage, "{} is not a folder of this user's alone", folder.string());
}

void write_into(const Cache& cache, const fs::path& path, const std::string& wanted) {
  if (!can_be_preloaded(path))
    fail(ncclSystemError, "{}: a blank or a colon is in it", cache.folder.string());
  std::error_code error;
  fs::create_directories(cache.folder.parent_path(), error);
  if (error) fail(ncclSystemError, "{}: {}", cache.folder.string(), error.message());
  for (const fs::path& folder : {cache.folder, path.parent_path()}) make_private_folder(folder);
  if (fs::exists(path, error) && read_file(path) == wanted) return;
  // Other ranks may write the same, and running programs may have the old one loaded.
  write_file(path, wanted);
}

}  // namespace

bool can_be_preloaded(const std::string& path) { return path.find_first_of(": ") == path.npos; }

Written write_facade(const Facade& facade) {
  const std::string wanted = contents(facade);
  const std::string name = fmt::format("facade-{:016x}/libnccl.so.2",
                                       fingerprint(facade.interposer + '\n' + facade.nccl));
  std::string why_not;
  for (const Cache& cache : caches()) try {
      const fs::path path = cache.folder / name;
      write_into(cache, path, wanted);
      return {path, ""};
    } catch (const Error& e) {
      if (cache.named && e.result == ncclInvalidUsage) throw;
      why_not += (why_not.empty() ? "" : "; ") + e.message;
    }
  return {"", why_not};
}

}  // namespace terse::cli
