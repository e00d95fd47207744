// Manual page, terse(1), made of the command line itself.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace terse::cli {

std::string manual(const CLI::App& app, const std::string& version);

}  // namespace terse::cli
