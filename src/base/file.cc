#include "base/file.h"

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

// Of one folder, for the rename to be one step. Processes in containers of their own have numbers
// alike.
fs::path draft_of(const fs::path& place) {
  return place.string() + fmt::format(".{}-{:08x}.part", getpid(), std::random_device{}());
}

}  // namespace

void write_file(const fs::path& path, const std::string& text) {
  std::error_code error;
  const fs::file_type kind = fs::status(path, error).type();
  const bool replaces = kind == fs::file_type::not_found || kind == fs::file_type::regular;
  const fs::path place = replaces ? behind_links(path) : path;
  const fs::path draft = replaces ? draft_of(place) : place;
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    const int cause = errno;
    if (replaces) unlink(draft.c_str());
    fail(ncclSystemError, "cannot write {}: {}", path.string(), std::strerror(cause));
  }
  if (!replaces) return;
  fs::rename(draft, place, error);
  if (!error) return;
  unlink(draft.c_str());
  fail(ncclSystemError, "cannot write {}: {}", path.string(), error.message());
}

}  // namespace terse
