#include "cli/asked_machine.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/link_load.h"
#include "cli/option_checks.h"
#include "cli/program.h"
#include "policy/draft.h"
#include "policy/nearest_profile.h"
#include "policy/profile_file.h"
#include "policy/settings.h"
#include "policy/this_machine.h"

namespace terse::cli {
namespace {

// Returns true if the answer is for GPUs: as the options say, or if this build is for them.
bool is_for_gpus(const MachineOptions& o) {
  return o.gpu || !o.device.empty() || (!o.cpu && is_installed("lib/libterse_cuda.so"));
}

// The GPUs of --device, on the network of --network, or else those that are here.
Machine machine_of(const MachineOptions& o) {
  Machine machine{o.device, 0};
  if (o.device.empty()) machine = {gpu_name(), static_cast<double>(network_gigabits()) * 1e9 / 8};
  std::ranges::transform(machine.device, machine.device.begin(),
                         [](unsigned char c) { return std::toupper(c); });
  if (!o.network.empty()) machine.bandwidth = parse_rate(o.network);
  return machine;
}

// Returns true if the options are for another machine than the environment's profile.
bool passes_over(const MachineOptions& o, const std::optional<model::Profile>& profile) {
  return !o.device.empty() || (o.cpu && profile && profile->gpu);
}

}  // namespace

void add_machine_options(CLI::App& command, MachineOptions& options) {
  CLI::Option* gpu =
      command.add_flag("--gpu", options.gpu,
                       "As on GPUs: usual sizes, and chunks (default: if this build is for GPUs)");
  CLI::Option* device =
      command
          .add_option("--device", options.device,
                      "GPUs, e.g. H100: predicts by the built-in profile nearest to them (default: "
                      "those of this machine)")
          ->check(not_empty);
  command
      .add_option("--network", options.network,
                  "Of a node of them, all of its cards, e.g. 3200gbit")
      ->check(readable_by(parse_rate))
      ->needs(device);
  CLI::Option* cpu =
      command.add_flag("--cpu", options.cpu, "As on CPUs")->excludes(gpu)->excludes(device);
  command
      .add_option("--profile", options.profile,
                  "Profile of the machine, as TERSE_PROFILE: of its GPUs, too")
      ->check(not_empty)
      ->excludes(device)
      ->excludes(cpu);
}

AskedMachine asked_machine(const MachineOptions& o, const plan::Topology& topology) {
  std::optional<model::Profile> named = settings().profile;
  if (passes_over(o, named)) named.reset();
  const bool names_none = o.profile == kNoProfile;
  if (names_none) named.reset();
  if (!o.profile.empty() && !names_none)
    named = at("--profile", [&] { return read_profile(o.profile); });
  if (named) return {named->gpu || o.gpu, named, ""};
  if (!is_for_gpus(o)) return {false, {}, ""};
  if (names_none || (settings().no_profile && o.device.empty())) return {true, {}, ""};
  const Machine machine = machine_of(o);
  AskedMachine asked{true, nearest_profile(machine, topology), machine.device};
  if (!o.device.empty() && !asked.profile)
    refuse("--device {}: no built-in profile is of such GPUs on {} (terse forecast --list)",
           o.device, counted(topology.nodes(), "node"));
  return asked;
}

}  // namespace terse::cli
