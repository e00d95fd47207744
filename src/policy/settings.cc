#include "policy/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "policy/nearest.h"
#include "policy/profile_file.h"
#include "policy/size.h"

namespace terse {
namespace {

// Folder where the process began, for relative paths: programs may change it before their first
// call. Never destroyed.
const std::filesystem::path& start_folder() {
  static const std::filesystem::path& folder = *new std::filesystem::path([] {
    std::error_code error;
    return std::filesystem::current_path(error);
  }());
  return folder;
}
[[maybe_unused]] const auto& at_the_start = start_folder();

std::string file_at(std::string_view path) { return (start_folder() / path).string(); }

// A name without a slash stays one, for the linker to look up.
std::string library_at(std::string_view path) {
  return path.find('/') == path.npos ? std::string(path) : file_at(path);
}

// Folder or name of reports, after a check of its signs, which tell reports apart, and of %%.
std::string report_name(std::string_view text) {
  for (size_t at = text.find('%'); at != text.npos; at = text.find('%', at + 2)) {
    const std::string_view sign = text.substr(at, 2);
    if (sign != "%r" && sign != "%p" && sign != "%h" && sign != "%%")
      fail(ncclInvalidArgument, "{} is none of %r rank, %p pid, %h host and %% a percent sign",
           sign);
  }
  return report_at(start_folder(), text);
}

std::string profile_at(std::string_view path) {
  return is_known_profile(path) ? std::string(path) : file_at(path);
}

uint64_t parse_bytes(std::string_view text) {
  const std::optional<uint64_t> bytes = parse_size(text);
  if (!bytes) fail(ncclInvalidArgument, "it must be a number of bytes, such as 65536 or 64K");
  return *bytes;
}

// Smaller chunks would be nothing but messages.
uint64_t parse_chunk(std::string_view text) {
  constexpr uint64_t kMin = 4 << 10;
  const uint64_t bytes = parse_bytes(text);
  if (bytes != 0 && bytes < kMin)
    fail(ncclInvalidArgument, "a chunk has {} bytes or more", print_size(kMin));
  return bytes;
}

uint64_t parse_plain(std::string_view text) {
  const std::optional<uint64_t> number = parse_number(text);
  if (!number) fail(ncclInvalidArgument, "it must be a whole number");
  return *number;
}

bool parse_switch(std::string_view text) {
  if (text != "0" && text != "1") fail(ncclInvalidArgument, "it must be 0 or 1");
  return text == "1";
}

constexpr std::string_view kFuses[] = {"off", "auto", "on", "shared"};
static_assert(std::size(kFuses) == static_cast<size_t>(Fuse::kShared) + 1);

Fuse parse_fuse(std::string_view text) {
  const auto found = std::ranges::find(kFuses, text);
  if (found == std::end(kFuses)) fail(ncclInvalidArgument, "it must be auto, on, shared or off");
  return static_cast<Fuse>(found - kFuses);
}

uint64_t parse_trace(std::string_view text) {
  constexpr uint64_t kMax = 100'000;  // of some KB each
  const std::optional<uint64_t> calls = parse_number(text);
  if (!calls || *calls > kMax) fail(ncclInvalidArgument, "it must be 0 to {} calls", kMax);
  return *calls;
}

LogLevel parse_log_level(std::string_view text) {
  constexpr std::string_view kLevels[] = {"off", "error", "warn", "info", "trace"};
  static_assert(std::size(kLevels) == static_cast<size_t>(LogLevel::kTrace) + 1);
  for (size_t i = 0; i < std::size(kLevels); ++i)
    if (kLevels[i] == text) return static_cast<LogLevel>(i);
  fail(ncclInvalidArgument, "it must be off, error, warn, info or trace");
}

// Agreement of ranks on a setting: those that must be the same are compared at the first agreement
// (shared_numbers(), SettingsDigest).
enum class Ranks : uint8_t { kAlike, kMayDiffer };

struct Variable {
  const char* name;
  Ranks ranks;
  const char* meaning;  // null: set by terse, not by people
  void (*read)(std::string_view text, Settings& s);
};

constexpr Variable kVariables[] = {
    {"TERSE_SCHEME", Ranks::kAlike,
     "what the preload library compresses with: a scheme, or rules (default off)",
     [](std::string_view text, Settings& s) { s.scheme = text; }},
    {"TERSE_POLICY", Ranks::kAlike, "path of a file of rules, instead of TERSE_SCHEME",
     [](std::string_view text, Settings& s) { s.policy_path = file_at(text); }},
    {"TERSE_PROFILE", Ranks::kAlike,
     "profile of the machine, by which `auto` chooses, presets leave native what gains less than "
     "10 %, other schemes what would be over 3 % slower, and times are predicted: a file, as terse "
     "tune writes it, a profile's name, or the word none (default on known GPUs: the nearest)",
     [](std::string_view text, Settings& s) {
       s.no_profile = text == kNoProfile;
       if (!s.no_profile) s.profile = read_profile(profile_at(text));
     }},
    {"TERSE_LEVELS", Ranks::kAlike, "file of the levels that learned schemes begin with, and save",
     [](std::string_view text, Settings& s) {
       s.levels_path = file_at(text);
       s.levels = read_levels(s.levels_path);
     }},
    {"TERSE_MIN_BYTES", Ranks::kAlike,
     "messages, or shards, smaller than this stay native unless a rule names a size, or is `auto` "
     "(default 64K; on GPUs messages of 8M, and 32K a rank)",
     [](std::string_view text, Settings& s) { s.min_bytes = parse_bytes(text); }},
    {"TERSE_CHUNK_BYTES", Ranks::kAlike,
     "raw bytes of a chunk (default: 1M, at least 256K a rank, of which at most 160K are sent; "
     "twice that from 32 chunks on; on GPUs 16M, at least 1M a rank, and the square root of that "
     "times the message), 4K or more",
     [](std::string_view text, Settings& s) { s.chunk_bytes = parse_chunk(text); }},
    {"TERSE_SEED", Ranks::kAlike, "seed of schemes that name none (default 0)",
     [](std::string_view text, Settings& s) { s.seed = parse_plain(text); }},
    {"TERSE_FUSE", Ranks::kAlike,
     "auto (default): calls of ranks on one host are fused: each rank quantizes into memory that "
     "all share; on: those of GPUs of one node, too, each in one kernel (no GPU has run one yet); "
     "shared: also where ranks share a GPU, for tests; or off",
     [](std::string_view text, Settings& s) { s.fuse = parse_fuse(text); }},
    {"TERSE_WINDOW", Ranks::kAlike,
     "max memory of a rank for fused calls, on each communicator; larger calls are done in steps "
     "(default 128M)",
     [](std::string_view text, Settings& s) { s.window_bytes = parse_bytes(text); }},
    {"TERSE_TIMEOUT", Ranks::kMayDiffer,
     "seconds for all ranks to agree on settings (default 60); ten times that for later calls on "
     "which they decide together",
     [](std::string_view text, Settings& s) {
       const uint64_t seconds = parse_plain(text);
       if (seconds == 0 || seconds > 86400)
         fail(ncclInvalidArgument, "it must be 1 to 86400 seconds");
       s.timeout_seconds = static_cast<unsigned>(seconds);
     }},
    {"TERSE_NCCL", Ranks::kMayDiffer,
     "path of the NCCL to use, or a name that the linker looks for (default: the program's own)",
     [](std::string_view text, Settings& s) { s.nccl = library_at(text); }},
    {"TERSE_CUDA_MODULE", Ranks::kMayDiffer,
     "path of libterse_cuda.so (default: beside terse's own library)",
     [](std::string_view text, Settings& s) { s.cuda_module = library_at(text); }},
    {"TERSE_METER", Ranks::kMayDiffer,
     "one in so many compressed calls is timed, 0: none (default 1, on GPUs 16)",
     [](std::string_view text, Settings& s) { s.meter = parse_plain(text); }},
    {"TERSE_VERIFY", Ranks::kAlike,
     "one in so many also runs natively, to know its error (default 0: none)",
     [](std::string_view text, Settings& s) { s.verify = parse_plain(text); }},
    {"TERSE_OBSERVE", Ranks::kAlike,
     "1: the preload library compresses nothing, and reports say what would be (default 0)",
     [](std::string_view text, Settings& s) { s.observe = parse_switch(text); }},
    {"TERSE_REPORT", Ranks::kMayDiffer,
     "folder for a report at the end, or a name with %r rank %p pid %h host; %% is a %, and any "
     "other % an error",
     [](std::string_view text, Settings& s) { s.report = report_name(text); }},
    {"TERSE_METRICS", Ranks::kMayDiffer,
     "folder, or a name as of TERSE_REPORT, for counters in Prometheus's text format, once a "
     "minute",
     [](std::string_view text, Settings& s) { s.metrics = report_name(text); }},
    {"TERSE_TRACE", Ranks::kMayDiffer,
     "so many last calls of a communicator are kept for the report, with their steps",
     [](std::string_view text, Settings& s) { s.trace = parse_trace(text); }},
    // File that a process makes with its first communicator, for terse run --check.
    {"TERSE_MARK", Ranks::kMayDiffer, nullptr,
     [](std::string_view text, Settings& s) { s.mark = file_at(text); }},
    {"TERSE_LOG", Ranks::kMayDiffer,
     "off, error, warn (default), info, or trace: a line for each call; on standard error",
     [](std::string_view text, Settings& s) { s.log = parse_log_level(text); }},
    {"NCCL_HOSTID", Ranks::kMayDiffer,
     "NCCL's name of this machine, by which nodes are counted (default: its own)",
     [](std::string_view text, Settings& s) { s.node = text; }},
    // After NCCL_HOSTID, which it replaces.
    {"TERSE_NODE", Ranks::kMayDiffer,
     "name of the node, in place of NCCL_HOSTID, for terse alone: several machines may be one node",
     [](std::string_view text, Settings& s) { s.node = text; }},
    {"TERSE_POD", Ranks::kMayDiffer,
     "name of the pod (rack, rail group, region) that the node is in: with many levels its nodes "
     "exchange first, and what goes to other pods is that much less",
     [](std::string_view text, Settings& s) { s.pod = text; }},
};

// Variables in which launchers number processes.
constexpr const char* kProcessNumbers[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                           "SLURM_PROCID"};

// Variables of this repository's own tests.
constexpr std::string_view kHarness[] = {"TERSE_BLESS", "TERSE_REQUIRE_NAMESPACES",
                                         "TERSE_TEST_BUILD_DIR"};

// Called last, as rules need the other settings.
void read_policy(Settings& s) {
  if (!s.scheme.empty() && !s.policy_path.empty())
    fail(ncclInvalidArgument, "TERSE_POLICY and TERSE_SCHEME are both set; rules come from one");
  const bool file = !s.policy_path.empty();
  const char* name = file ? "TERSE_POLICY" : "TERSE_SCHEME";
  try {
    if (file)
      s.policy = read_policy_file(s.policy_path, s.min_bytes);
    else if (!s.scheme.empty())
      s.policy = parse_policy_line(s.scheme, s.min_bytes);
    std::error_code ignored;
    if (file && s.policy.rules.empty() && std::filesystem::is_fifo(s.policy_path, ignored))
      fail(ncclInvalidArgument, "it is a pipe without rules: another process may have read them");
  } catch (const Error& e) {
    fail(ncclInvalidArgument, "{}=\"{}\": {}", name, shortened(file ? s.policy_path : s.scheme),
         e.message);
  }
}

}  // namespace

Settings read_settings(const std::function<const char*(const char* name)>& look_up) {
  Settings s;
  for (const Variable& variable : kVariables) {
    const char* text = look_up(variable.name);
    if (text == nullptr || *text == '\0') continue;
    try {
      variable.read(text, s);
    } catch (const Error& e) {
      if (s.error.empty())
        s.error = fmt::format("{}=\"{}\": {}", variable.name, shortened(text), e.message);
    }
  }
  for (const char* name : kProcessNumbers) {
    const char* text = look_up(name);
    const auto number = text != nullptr ? parse_number(text) : std::nullopt;
    if (!number) continue;
    s.process = *number;
    break;
  }
  try {
    read_policy(s);
  } catch (const Error& e) {
    if (s.error.empty()) s.error = e.message;
  }
  return s;
}

const Settings& settings() {
  // Never destroyed: calls may come while the program exits.
  static const Settings& s = *new Settings([] {
    Settings read = read_settings([](const char* name) { return std::getenv(name); });
    if (read.log) set_log_level(*read.log);
    for (const std::string& line : unknown_variables(environ)) log(LogLevel::kWarn, "{}", line);
    for (const std::string& line : read.policy.warnings()) log(LogLevel::kWarn, "{}", line);
    if (!read.policy_path.empty() && read.error.empty() && read.policy.rules.empty())
      log(LogLevel::kWarn, "{} has no rules: nothing is compressed", read.policy_path);
    return read;
  }());
  return s;
}

std::vector<std::string> unknown_variables(const char* const* environment) {
  constexpr std::string_view kPrefix = "TERSE_";
  std::vector<std::string_view> known;  // without the prefix, which says nothing
  for (const Variable& variable : kVariables) {
    const std::string_view name = variable.name;
    if (name.starts_with(kPrefix)) known.push_back(name.substr(kPrefix.size()));
  }
  std::vector<std::string> lines;
  if (environment == nullptr) return lines;  // clearenv() leaves none
  for (; *environment != nullptr; ++environment) {
    const std::string_view entry = *environment;
    const std::string_view name = entry.substr(0, entry.find('='));
    if (!name.starts_with(kPrefix)) continue;
    const std::string_view rest = name.substr(kPrefix.size());
    if (std::ranges::count(kHarness, name) != 0 || std::ranges::count(known, rest) != 0) continue;
    const std::string_view meant = nearest(rest, known);
    lines.push_back(fmt::format("unknown variable {}{}", name,
                                meant.empty()
                                    ? "; `terse settings` lists them"
                                    : fmt::format("; did you mean {}{}?", kPrefix, meant)));
  }
  return lines;
}

std::string report_at(const std::filesystem::path& folder, std::string_view text) {
  std::string plain;  // without signs of %
  for (const char c : folder.string()) plain.append(c == '%' ? 2 : 1, c);
  return (plain / std::filesystem::path(text)).string();
}

std::string report_folder(std::string_view report) {
  std::string folder;
  for (size_t i = 0; i < report.size(); ++i) {
    if (report[i] == '%' && i + 1 < report.size() && report[++i] != '%') return "";
    folder += report[i];
  }
  return folder;
}

std::string describe_settings() {
  std::string text;
  for (const Variable& variable : kVariables) {
    if (variable.meaning == nullptr) continue;
    const char* value = std::getenv(variable.name);
    text += fmt::format("{:18} {}{}{}\n", variable.name, variable.meaning,
                        variable.ranks == Ranks::kAlike ? "; alike on all ranks" : "",
                        value != nullptr ? fmt::format("; now \"{}\"", printable(value)) : "");
  }
  return text;
}

void require_valid(const Settings& s) {
  if (!s.error.empty()) fail(ncclInvalidArgument, "{}", s.error);
}

std::span<const SharedNumber, kSharedNumbers> shared_numbers() {
  static constexpr auto kPlain = [](uint64_t number) { return fmt::format("{}", number); };
  static constexpr SharedNumber kNumbers[] = {
      {"TERSE_MIN_BYTES",
       [](const Settings& s) -> uint64_t { return s.min_bytes.value_or(kUsualShard); }, print_size},
      {"TERSE_CHUNK_BYTES", [](const Settings& s) -> uint64_t { return s.chunk_bytes; },
       [](uint64_t bytes) { return bytes != 0 ? print_size(bytes) : "not set"; }},
      {"TERSE_SEED", [](const Settings& s) { return s.seed; }, kPlain},
      {"TERSE_FUSE", [](const Settings& s) { return static_cast<uint64_t>(s.fuse); },
       [](uint64_t fuse) { return std::string(kFuses[fuse]); }},
      {"TERSE_WINDOW", [](const Settings& s) -> uint64_t { return s.window_bytes; }, print_size},
      {"TERSE_VERIFY", [](const Settings& s) { return s.verify; }, kPlain},
      {"TERSE_OBSERVE", [](const Settings& s) -> uint64_t { return s.observe; }, kPlain},
  };
  // The others that must be alike are texts: the policy, by two names, the profile and the levels.
  constexpr size_t kTexts = 4;
  static_assert(std::ranges::count(kVariables, Ranks::kAlike, &Variable::ranks) ==
                kSharedNumbers + kTexts);
  return kNumbers;
}

// FNV-1a, 64 bits.
uint64_t fingerprint(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace terse
