// The settings, read from the environment once, in this room only. settings.cc lists the variables.
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

struct Settings {
  std::string scheme, policy_path;        // at most one of them
  Floor min_bytes;                        // empty: usual sizes
  Policy policy;                          // made of the above
  std::optional<model::Profile> profile;  // by which `auto` chooses
  std::string levels_path;                // where levels are saved; empty: nowhere
  std::vector<Levels> levels;             // that were there, for learned codecs to begin with
  size_t chunk_bytes = 0;                 // 0: by the machine and the number of ranks
  uint64_t seed = 0;
  unsigned timeout_seconds = 60;
  std::string nccl;               // empty: the program's
  std::string cuda_module;        // empty: the one beside terse's own library
  std::string node;               // what this one is called; empty: the machine's name and boot id
  std::optional<uint64_t> meter;  // one in n compressed calls is timed, 0: none; empty: by machine
  uint64_t verify = 0;            // one in n of all ranks also runs natively; 0: none
  uint64_t trace = 0;             // so many last calls of a communicator are in the report
  uint64_t process = 0;           // this one's number among the job's, by its launcher
  std::string mark;               // a file to make at the first communicator; empty: none
  std::string report;             // of this process at its end (report_folder); empty: none
  std::optional<LogLevel> log;    // empty: the usual one
  std::string error;              // the first setting that could not be understood; empty: none
};

// What was in the environment at the first call. Never throws for a bad setting: `error` keeps it,
// and communicator creation reports it.
const Settings& settings();

// The same from a look-up of names, null where there is none.
Settings read_settings(const std::function<const char*(const char* name)>& look_up);

// What a user without a profile can do.
constexpr char kProfileHint[] =
    "set TERSE_PROFILE to a file that `terse tune` has written, or to one of those that `terse "
    "forecast --list` names";

// TERSE_REPORT as it is meant from a folder.
std::string report_at(const std::filesystem::path& folder, std::string_view text);

// The folder that reports go to; "": it is a name, with %r, %p or %h in it.
std::string report_folder(std::string_view report);

// What is wrong, in a line each, with variables that are named TERSE_... and are none of terse's.
// `environment` is as POSIX has it.
std::vector<std::string> unknown_variables(const char* const* environment);

// The settings' names, meanings and present values, a line each.
std::string describe_settings();

// Throws Error(ncclInvalidArgument) when a setting could not be understood.
void require_valid(const Settings& settings);

// The numbers that must be alike on all ranks, as the policy must.
struct SharedNumber {
  const char* variable;
  uint64_t (*value)(const Settings& settings);
  std::string (*print)(uint64_t value);
};
constexpr size_t kSharedNumbers = 4;
std::span<const SharedNumber, kSharedNumbers> shared_numbers();

uint64_t fingerprint(std::string_view text);

}  // namespace terse
