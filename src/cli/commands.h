// Subcommands of `terse`: each adds itself to the command line.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace terse::cli {

// Rules of a run that names none. They compress between nodes alone: links within a node are mostly
// faster than a codec.
inline constexpr const char* kDefaultRules = "nodes=2.. -> safe";

void add_explain(CLI::App& app);
void add_scheme(CLI::App& app);
void add_schemes(CLI::App& app);
void add_presets(CLI::App& app);
void add_plan(CLI::App& app);
void add_settings(CLI::App& app);
void add_forecast(CLI::App& app);
void add_completion(CLI::App& app);

// Commands that set the exit status of `terse`.
void add_run(CLI::App& app, int& status);
void add_report(CLI::App& app, int& status);
void add_compare(CLI::App& app, int& status);
void add_tune(CLI::App& app, int& status);

}  // namespace terse::cli
