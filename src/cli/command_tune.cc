// `terse tune`: measures the ranks of a job, by a program of its own that uses NCCL.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/program.h"

namespace terse::cli {

void add_tune(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand(
      "tune", "Measure the ranks of a job, and write a profile for auto: terse tune --help");
  command->prefix_command();
  command->set_help_flag("");
  command->callback([command, &status] {
    std::vector<std::string> words = command->remaining();
    if (!is_installed("bin/terse-tune"))
      fail(ncclSystemError,
           "terse-tune is not installed here: it was left out of this build (TERSE_BUILD_BENCH)");
    words.insert(words.begin(), installed("bin/terse-tune"));
    status = become(std::move(words));
  });
}

}  // namespace terse::cli
