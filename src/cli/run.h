// The subcommand `terse run`.
#pragma once

#include <CLI/CLI.hpp>

namespace terse::cli {

void add_run(CLI::App& app);

}  // namespace terse::cli
