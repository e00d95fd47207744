#include "cli/facade.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "policy/settings.h"

namespace terse::cli {
namespace {

namespace fs = std::filesystem;

// The bytes that every library begins with, and the blank does not.
const std::string kMagic = "\177ELF";

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return std::string(cache) + "/terse";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return std::string(home) + "/.cache/terse";
  return fmt::format("/tmp/terse-{}", getuid());
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ncclSystemError, "{}: {}", path, std::strerror(errno));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes `path` over the name that begins with `mark`, which the linker left as the name of a
// library that is needed (plugin/facade).
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

// Only the user may write where code is loaded from.
void make_private_folder(const fs::path& folder) {
  fs::create_directories(folder.parent_path());
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail(ncclSystemError, "{}: {}", folder.string(), std::strerror(errno));
  for (const fs::path& each : {folder.parent_path(), folder}) {
    struct stat status {};
    if (lstat(each.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != getuid() || (status.st_mode & S_IWOTH) != 0)
      fail(ncclSystemError, "{} is not a folder of this user's alone", each.string());
  }
}

}  // namespace

std::string facade_path(const Facade& facade) {
  return fmt::format("{}/facade-{:016x}/libnccl.so.2", cache_folder(),
                     fingerprint(facade.interposer + '\n' + facade.nccl));
}

void write_facade(const Facade& facade) {
  const std::string path = facade_path(facade);
  const std::string wanted = contents(facade);
  make_private_folder(fs::path(path).parent_path());
  if (fs::exists(path) && read_file(path) == wanted) return;
  // Other ranks may be writing the same, and running programs may have the old one loaded.
  write_file(path, wanted);
}

}  // namespace terse::cli
