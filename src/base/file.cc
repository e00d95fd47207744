#include "base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>

#include "base/error.h"

namespace terse {
namespace {

namespace fs = std::filesystem;

fs::path behind_links(fs::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && fs::is_symlink(path, error); ++links)
    path = path.parent_path() / fs::read_symlink(path, error);
  return path;
}

// Names a draft in the same folder, so that the rename is one step. Processes in containers may
// have the same number.
fs::path draft_of(const fs::path& place) {
  return place.string() + fmt::format(".{}-{:08x}.part", getpid(), std::random_device{}());
}

// Returns true for a file, or nothing, which a draft replaces.
bool is_replaced(fs::file_type kind) {
  return kind == fs::file_type::not_found || kind == fs::file_type::regular;
}

[[noreturn]] void fail_to_write(const fs::path& path, int cause) {
  fail(ncclSystemError, "cannot write {}: {}", path.string(), std::strerror(cause));
}

}  // namespace

void leave_mark(const std::string& path) {
  if (path.empty()) return;
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file >= 0) close(file);
}

void write_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  const bool replaces = is_replaced(fs::status(path, error).type());
  const fs::path place = replaces ? behind_links(path) : path;
  const fs::path draft = replaces ? draft_of(place) : place;
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    const int cause = errno;
    if (replaces) unlink(draft.c_str());
    fail_to_write(path, cause);
  }
  if (!replaces) return;
  fs::rename(draft, place, error);
  if (!error) return;
  unlink(draft.c_str());
  fail(ncclSystemError, "cannot write {}: {}", path.string(), error.message());
}

void require_writable(const fs::path& path) {
  std::error_code error;
  const fs::file_type kind = fs::status(path, error).type();
  if (kind == fs::file_type::directory) fail_to_write(path, EISDIR);
  if (!is_replaced(kind)) {
    if (access(path.c_str(), W_OK) != 0) fail_to_write(path, errno);
    return;
  }
  const fs::path parent = behind_links(path).parent_path();
  const fs::path folder = (parent.empty() ? "." : parent) / "";  // what is none is an error
  if (access(folder.c_str(), W_OK | X_OK) != 0) fail_to_write(path, errno);
}

}  // namespace terse
