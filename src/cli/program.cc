#include "cli/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "cli/option_checks.h"

namespace terse::cli {

namespace {

namespace fs = std::filesystem;

fs::path place_of(const char* name) {
  std::error_code error;  // as in a root without /proc
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return self.parent_path().parent_path() / name;
}

}  // namespace

std::string installed(const char* name) {
  const fs::path file = place_of(name);
  if (file.is_relative())
    fail(ncclSystemError, "where {} is cannot be found: /proc/self/exe cannot be read", name);
  if (!fs::exists(file)) fail(ncclSystemError, "there is no {}", file.string());
  return file.string();
}

bool is_installed(const char* name) {
  const fs::path file = place_of(name);
  return file.is_absolute() && fs::exists(file);
}

int become(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  fmt::print(stderr, "terse: {}: {}\n", command[0], std::strerror(error));
  return error == ENOENT ? kNotFound : kNotExecutable;
}

}  // namespace terse::cli
