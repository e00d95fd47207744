#include "cli/python.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "nccl/find.h"

namespace terse::cli {
namespace {

namespace fs = std::filesystem;

bool is_python(const fs::path& program) {
  return program.filename().string().starts_with("python");
}

// The program itself, or what its first line names; "": no Python.
fs::path interpreter_of(const fs::path& program) {
  if (is_python(program)) return program;
  std::error_code ignored;
  if (!fs::is_regular_file(program, ignored)) return {};
  char start[4096] = {};  // max that a kernel reads of it
  std::ifstream(program).getline(start, sizeof start);
  const std::string line = start;
  if (!line.starts_with("#!")) return {};
  std::istringstream words(line.substr(2));
  for (std::string word; words >> word;)
    if (is_python(word)) return find_program(word);
  return {};
}

// "python3.12", by its name or by the target of its link; "": neither has a version.
std::string release_of(fs::path interpreter) {
  static const std::regex release("python3\\.[0-9]+t?");
  std::error_code failed;
  for (int links = 0; links < 40; ++links) {
    const std::string name = interpreter.filename();
    if (std::regex_match(name, release)) return name;
    const fs::path target = fs::read_symlink(interpreter, failed);
    if (failed) break;
    interpreter = interpreter.parent_path() / target;
  }
  return "";
}

// Folder of bin/ and lib/. Follows no links: the bin/python of a virtual environment is one.
fs::path prefix_of(const fs::path& program) {
  return fs::absolute(program).parent_path().parent_path();
}

// Folder of the packages: those of a virtual environment, wherever its scripts lie. Scripts of the
// system's Python may be the user's, with their packages, as in ~/.local.
fs::path packages_of(const fs::path& program, const fs::path& interpreter) {
  std::error_code ignored;
  const fs::path own = prefix_of(interpreter);
  const bool is_environment = fs::exists(own / "pyvenv.cfg", ignored);
  return is_environment ? own : prefix_of(program);
}

// Returns true if a PyTorch among these packages does without the wheel of NCCL: it contains one,
// or uses the system's, as NVIDIA's and conda's do. The wheel serves something else then.
bool has_a_torch_of_another_nccl(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("torch-") || !name.ends_with(".dist-info")) continue;
      std::ifstream file(entry.path() / "METADATA");
      const std::string metadata{std::istreambuf_iterator<char>(file), {}};
      if (metadata.find("Requires-Dist: nvidia-nccl-") == metadata.npos) return true;
    }
  }
  return false;
}

}  // namespace

fs::path find_program(const std::string& name) {
  if (name.find('/') != name.npos) return name;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((fs::path(folder) / name).c_str(), X_OK) == 0) return fs::path(folder) / name;
  return {};
}

std::string nccl_of_python(const fs::path& program) {
  const fs::path interpreter = interpreter_of(program);
  if (interpreter.empty()) return "";
  const std::string release = release_of(interpreter);
  const fs::path prefix = packages_of(program, interpreter);
  const std::vector<std::string> folders = package_folders(prefix, release);
  if (has_a_torch_of_another_nccl(folders)) return "";
  const std::vector<std::string> wheels = nccl_of_packages(folders);
  const bool certain = wheels.size() == 1 || (!wheels.empty() && !release.empty());
  return certain ? wheels.front() : "";
}

}  // namespace terse::cli
