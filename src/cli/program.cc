#include "cli/program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "cli/options.h"

namespace terse::cli {

std::string installed(const char* name) {
  namespace fs = std::filesystem;
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const fs::path file = self.parent_path().parent_path() / name;
  if (!fs::exists(file)) fail(ncclSystemError, "there is no {}", file.string());
  return file.string();
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
