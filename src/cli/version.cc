#include "cli/version.h"

#include "base/error.h"
#include "cli/build_facts.h"
#include "cli/program.h"
#include "terse/terse.h"

namespace terse::cli {
namespace {

constexpr const char* kHostnccl = "lib/terse/hostnccl/libnccl.so.2";

std::string cuda_module() {
  const std::string built = kBuildFacts.cuda_module;
  return built == "none" || is_installed("lib/libterse_cuda.so") ? built
                                                                 : built + ", not installed";
}

}  // namespace

std::string version() {
  return fmt::format("{}.{}.{}", TERSE_VERSION_MAJOR, TERSE_VERSION_MINOR, TERSE_VERSION_PATCH);
}

std::string version_and_build() {
  return fmt::format(
      "terse {}\n"
      "commit       {}\n"
      "compiler     {}\n"
      "CUDA module  {}\n"
      "hostnccl     {}",
      version(), kBuildFacts.commit, kBuildFacts.compiler, cuda_module(),
      is_installed(kHostnccl) ? installed(kHostnccl) : "none");
}

}  // namespace terse::cli
