// Settings, read from the environment once, by this room alone. settings.cc lists the variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "model/profile.h"
#include "policy/levels.h"
#include "policy/policy.h"

namespace terse {

// Which calls are fused, where ranks have windows: those of hosts; of GPUs, too; also of ranks that
// share a GPU.
enum class Fuse : uint8_t { kOff, kAuto, kOn, kShared };
inline bool fuses(Fuse fuse, bool on_gpus) { return fuse >= (on_gpus ? Fuse::kOn : Fuse::kAuto); }

struct Settings {
  std::string scheme, policy_path;        // at most one of them
  Floor min_bytes;                        // empty: default sizes
  Policy policy;                          // made of the two above
  std::optional<model::Profile> profile;  // for `auto`
  bool no_profile = false;                // nor is the nearest built-in one taken
  std::string levels_path;                // where levels are saved; empty: nowhere
  std::vector<Levels> levels;             // read from there, for learned codecs to begin with
  size_t chunk_bytes = 0;                 // 0: by the machine and the number of ranks
  uint64_t seed = 0;
  Fuse fuse = Fuse::kAuto;
  size_t window_bytes = size_t{128} << 20;  // max of a window
  unsigned timeout_seconds = 60;
  std::string nccl;               // empty: the program's
  std::string cuda_module;        // empty: the one beside terse's own library
  std::string node;               // name of the node; empty: the machine's name and boot id
  std::string pod;                // name of the node's pod; empty: none
  std::optional<uint64_t> meter;  // times one in n compressed calls, 0: none; empty: by machine
  uint64_t verify = 0;            // also runs one in n calls of all ranks natively; 0: none
  bool observe = false;           // all calls stay native, and the report says what would be
  uint64_t trace = 0;             // last calls of a communicator in the report
  uint64_t process = 0;           // number of this process in the job, by its launcher
  std::string mark;               // file to make at the first communicator; empty: none
  std::string report;             // of this process at its end (report_folder); empty: none
  std::string metrics;            // where the report goes as metrics, likewise; empty: nowhere
  std::optional<LogLevel> log;    // empty: the default
  std::string error;              // first setting that was not understood; empty: none

  bool reports() const { return !report.empty() || !metrics.empty(); }
};

// Settings of the environment at the first call. Never throws for a bad setting: `error` keeps it,
// and communicator creation reports it.
const Settings& settings();

// Settings of a look-up by name, which gives null for none.
Settings read_settings(const std::function<const char*(const char* name)>& look_up);

// Remedy for a missing profile.
constexpr char kProfileHint[] =
    "set TERSE_PROFILE to a file that `terse tune` has written, or to one of those that `terse "
    "forecast --list` names";

// TERSE_REPORT relative to a folder.
std::string report_at(const std::filesystem::path& folder, std::string_view text);

// Folder of the reports; "": it is a name with %r, %p or %h.
std::string report_folder(std::string_view report);

// Warnings, a line each, for variables named TERSE_... that are none of terse's. `environment`: as
// POSIX has it.
std::vector<std::string> unknown_variables(const char* const* environment);

// Names, meanings and present values of the settings, a line each.
std::string describe_settings();

// Throws Error(ncclInvalidArgument) if a setting was not understood.
void require_valid(const Settings& settings);

// Numbers that must be alike on all ranks, as the policy must.
struct SharedNumber {
  const char* variable;
  uint64_t (*value)(const Settings& settings);
  std::string (*print)(uint64_t value);
};
constexpr size_t kSharedNumbers = 7;
std::span<const SharedNumber, kSharedNumbers> shared_numbers();

uint64_t fingerprint(std::string_view text);

}  // namespace terse
