// Machine that a command predicts for: that of its options, of the environment, or this one.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "model/profile.h"
#include "plan/topology.h"

namespace terse::cli {

struct MachineOptions {
  std::string profile, device, network;
  bool gpu = false, cpu = false;
};

// Machine that is asked about.
struct AskedMachine {
  bool gpu;
  std::optional<model::Profile> profile;
  std::string nearest_to;  // the device whose nearest profile it is; "": it was named
};

// The options outlive the command.
void add_machine_options(CLI::App& command, MachineOptions& options);

// The profile of --profile, or of the environment, or the built-in one nearest to the GPUs.
AskedMachine asked_machine(const MachineOptions& o, const plan::Topology& topology);

}  // namespace terse::cli
