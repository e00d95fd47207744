// `terse run`: a program under the preload library.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "cli/commands.h"
#include "policy/scheme.h"

namespace terse::cli {
namespace {

// lib/libterse_nccl.so beside this program's bin/.
std::string preload_path() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path library = self.parent_path().parent_path() / "lib/libterse_nccl.so";
  if (!std::filesystem::exists(library)) fail(ncclSystemError, "there is no {}", library.string());
  return library.string();
}

// Does not return on success.
void run_program(const std::string& scheme, std::vector<std::string> command) {
  const std::string canonical = print_scheme(parse_scheme(scheme));
  std::string preload = preload_path();
  if (const char* others = std::getenv("LD_PRELOAD"); others != nullptr && *others != '\0')
    preload = preload + ":" + others;
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("TERSE_SCHEME", canonical.c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fail(ncclSystemError, "{}: {}", command[0], std::strerror(errno));
}

}  // namespace

void add_run(CLI::App& app) {
  struct Options {
    std::string scheme = "int8";
    std::vector<std::string> command;
  };
  const auto o = std::make_shared<Options>();
  CLI::App* run = app.add_subcommand("run", "Run a program with its NCCL calls compressed");
  run->add_option("--scheme", o->scheme, "The scheme, e.g. int4:block=128")->capture_default_str();
  run->add_option("command", o->command, "The program and its arguments, after --")->required();
  run->callback([o] { run_program(o->scheme, o->command); });
}

}  // namespace terse::cli
