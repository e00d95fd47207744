// `terse run`: runs a program under the preload library.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/facade.h"
#include "cli/option_checks.h"
#include "cli/program.h"
#include "cli/python.h"
#include "cli/texts.h"
#include "policy/policy.h"
#include "policy/profile_file.h"
#include "policy/settings.h"

namespace terse::cli {
namespace {

namespace fs = std::filesystem;

struct Run {
  std::string scheme, policy;  // rules in a line or a file; at most one of them
  std::string nccl, profile, report, log;
  std::optional<uint64_t> verify, trace;
  bool without_facade = false;
  bool check = false, no_check = false, require = false;
  bool observe = false;
  bool dry = false;
  std::vector<std::string> command;
};

// Folder of the reports of an observed run that names none.
constexpr const char* kObserved = "terse-observed";

bool is_path(const std::string& library) { return library.find('/') != library.npos; }

// NCCL of the program if that is certain: the one named, or that of the packages of its Python. "":
// the program's own loader decides. A name without a slash in TERSE_NCCL is one that the linker
// looks up.
std::string nccl_of(const Run& run) {
  const std::string& named = run.nccl.empty() ? settings().nccl : run.nccl;
  if (!named.empty()) {
    if (run.nccl.empty() && !is_path(named)) return named;
    if (!fs::exists(named)) fail(ncclSystemError, "there is no {}", named);
    if (!fs::is_regular_file(named)) fail(ncclSystemError, "{} is not a library", named);
    return fs::absolute(named);
  }
  const fs::path program = find_program(run.command[0]);
  return program.empty() ? "" : nccl_of_python(program);
}

// Adds to LD_PRELOAD, whose separators cannot be quoted.
std::string preload(const std::vector<std::string>& libraries) {
  std::string value;
  for (const std::string& library : libraries) {
    if (!can_be_preloaded(library))
      fail(ncclInvalidUsage, "LD_PRELOAD cannot name {}: a blank or a colon is in it", library);
    value += library + ":";
  }
  if (const char* others = std::getenv("LD_PRELOAD"); others != nullptr) value += others;
  if (value.back() == ':') value.pop_back();
  return value;
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// Warns in a dry run, in place of the program's ranks.
void check_rules(const Policy& policy, const Run& run) {
  if (run.dry) print_warnings(policy, stderr);
}

// Refuses a pipe: every rank reads the file, and a pipe serves only the first.
void require_no_pipe(const char* name, const std::string& path) {
  std::error_code ignored;
  if (fs::is_fifo(path, ignored))
    fail(ncclInvalidArgument,
         "{}: {} is a pipe, which can be read once, not by each of the program's ranks: write it "
         "to a file",
         name, path);
}

// Called before settings(), which read all variables, even those that an option replaces.
void require_no_pipes(const Run& run) {
  for (const char* variable : {"TERSE_POLICY", "TERSE_PROFILE"})
    if (const char* path = std::getenv(variable)) require_no_pipe(variable, path);
  require_no_pipe("--policy", run.policy);
  require_no_pipe("--profile", run.profile);
}

// Puts the command line's rules in place of the environment's, and checks them.
void add_rules(const Run& run, std::vector<Variable>& variables) {
  const bool inherits = is_set("TERSE_SCHEME") || is_set("TERSE_POLICY");
  const auto clear = [&](const char* name) {
    if (is_set(name)) variables.push_back({name, ""});
  };
  if (!run.policy.empty()) {
    check_rules(read_policy_file(run.policy, settings().min_bytes), run);
    variables.push_back({"TERSE_POLICY", fs::absolute(run.policy)});
    clear("TERSE_SCHEME");
  } else if (!run.scheme.empty() || !inherits) {
    const std::string scheme = run.scheme.empty() ? kDefaultRules : run.scheme;
    check_rules(parse_policy_line(scheme, settings().min_bytes), run);
    variables.push_back({"TERSE_SCHEME", scheme});
    clear("TERSE_POLICY");
  }
}

// Name of a built-in profile, or the whole path of a file, as the program may run elsewhere.
std::string whole_name(const std::string& profile) {
  const bool is_name = profile == kNoProfile || is_known_profile(profile);
  return is_name ? profile : fs::absolute(profile).string();
}

// Adds the facade, also in a dry run, whose output is to be used.
void add_facade(const std::string& interposer, const std::string& nccl,
                std::vector<std::string>& libraries) {
  const Written facade = write_facade({installed("lib/terse/nccl_facade.blank"), interposer, nccl});
  if (!facade.path.empty()) return libraries.push_back(facade.path);
  fmt::print(stderr,
             "terse: no libnccl.so.2 can be put in front of the program's ({}): calls that only "
             "that catches, of clients that do without dlsym and of libraries that are opened with "
             "RTLD_DEEPBIND, stay native. XDG_CACHE_HOME names a folder for it\n",
             facade.why_not);
}

// Refuses a folder for reports that does not take them.
void require_folder(const char* option, const fs::path& folder) {
  fs::path there = fs::absolute(folder);
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, error))
    fail(ncclInvalidArgument, "{}: {} is no folder", option, there.string());
  if (access(there.c_str(), W_OK | X_OK) != 0)
    fail(ncclInvalidArgument, "{}: {}: {}", option, there.string(), std::strerror(errno));
}

void warn_without_report(const Run& run) {
  if (!run.report.empty() || is_set("TERSE_REPORT")) return;
  if (run.trace.value_or(0) != 0 || run.verify.value_or(0) != 0)
    fmt::print(stderr,
               "terse: what --trace keeps, and the errors that --verify finds, are in reports: "
               "--report DIR writes them\n");
}

// Lets the program's Python import terse, behind its own packages. A wheel has no such folder.
void add_python(std::vector<Variable>& variables) {
  constexpr const char* kFolder = "lib/terse/python";
  if (!is_installed(kFolder)) return;
  const std::string folder = installed(kFolder);
  const char* const own = std::getenv("PYTHONPATH");
  const std::string before = own != nullptr && *own != '\0' ? own + std::string(":") : "";
  if ((":" + before).find(":" + folder + ":") == std::string::npos)
    variables.push_back({"PYTHONPATH", before + folder});
}

std::vector<Variable> surroundings(const Run& run) {
  require_no_pipes(run);
  const std::string interposer = installed("lib/libterse_nccl.so");
  std::vector<std::string> libraries = {interposer};
  const std::string nccl = nccl_of(run);
  if (is_path(nccl) && !run.without_facade) add_facade(interposer, nccl, libraries);
  std::vector<Variable> variables = {{"LD_PRELOAD", preload(libraries)}};
  add_python(variables);
  add_rules(run, variables);
  if (!run.profile.empty()) {
    if (run.profile != kNoProfile) read_profile(run.profile);
    variables.push_back({"TERSE_PROFILE", whole_name(run.profile)});
  }
  if (!run.nccl.empty()) variables.push_back({"TERSE_NCCL", nccl});
  if (!run.report.empty()) {
    require_folder("--report", run.report);
    variables.push_back({"TERSE_REPORT", report_at(fs::current_path(), run.report)});
  }
  if (run.observe) variables.push_back({"TERSE_OBSERVE", "1"});
  if (run.verify) variables.push_back({"TERSE_VERIFY", std::to_string(*run.verify)});
  if (run.trace) variables.push_back({"TERSE_TRACE", std::to_string(*run.trace)});
  if (!run.log.empty()) variables.push_back({"TERSE_LOG", run.log});
  // Errors that the program's ranks would report when they make their communicators.
  require_valid_with(variables);
  warn_without_report(run);
  return variables;
}

// File that no process has made yet, in a folder of its own; both are removed at the end. None if
// no folder for temporary files takes it.
class Mark {
 public:
  Mark() {
    std::error_code error;
    const fs::path wanted = fs::temp_directory_path(error);  // of TMPDIR; "": it is no folder
    if (wanted.empty() || !make_in(wanted)) make_in("/tmp");
  }
  ~Mark() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  fs::path path() const { return folder_ / "seen"; }
  bool is_left() const { return fs::exists(path()); }
  const std::string& why_not() const { return why_not_; }  // "": there is one

 private:
  bool make_in(const fs::path& place) {
    std::string folder = place / "terse-XXXXXX";
    why_not_.clear();
    if (mkdtemp(folder.data()) == nullptr)
      why_not_ = fmt::format("{}: {}", place.string(), std::strerror(errno));
    else
      folder_ = folder;
    return why_not_.empty();
  }

  fs::path folder_;
  std::string why_not_;
};

// Reports in the folder that TERSE_REPORT names, with their times. None if it names none, or files.
std::map<fs::path, fs::file_time_type> reports_now() {
  const char* const wanted = std::getenv("TERSE_REPORT");
  std::map<fs::path, fs::file_time_type> reports;
  std::error_code ignored;
  fs::directory_iterator entry(report_folder(wanted != nullptr ? wanted : ""), ignored);
  for (; entry != fs::directory_iterator(); entry.increment(ignored))
    if (entry->path().extension() == ".json")
      reports.emplace(entry->path(), entry->last_write_time(ignored));
  return reports;
}

// Warns if no process of a run has made a communicator that the preload library saw. Ranks on other
// machines show by their reports alone.
int check_program(const std::vector<std::string>& command, bool require) {
  int waited = 0;
  {
    const Mark mark;
    if (!mark.why_not().empty() && require) {
      fmt::print(stderr,
                 "terse: --require: there is no folder for temporary files ({}), by which to see "
                 "whether anything is compressed\n",
                 mark.why_not());
      return kFailed;
    }
    if (!mark.why_not().empty()) {
      fmt::print(stderr,
                 "terse: whether the program uses NCCL is not checked: no folder for temporary "
                 "files ({})\n",
                 mark.why_not());
      return become(command);
    }
    const auto reports = reports_now();
    const std::string outer = settings().mark;
    setenv("TERSE_MARK", mark.path().c_str(), 1);
    waited = run_child(command);
    if (mark.is_left()) leave_mark(outer);
    const bool compressed = fs::exists(compressed_mark(mark.path()));
    if (compressed && !outer.empty()) leave_mark(compressed_mark(outer));
    if (waited == 0 && require && !compressed) {
      fmt::print(stderr, "terse: --require: {} has compressed nothing on this machine\n",
                 command[0]);
      return kFailed;
    }
    if (waited == 0 && !mark.is_left() && reports_now() == reports)
      fmt::print(
          stderr,
          "terse: {} has made no NCCL communicator that terse saw, in any process on this "
          "machine, the only one that it sees: nothing was compressed here. If it uses NCCL here, "
          "name that with --nccl; one that is linked into the program itself cannot be caught\n",
          command[0]);
  }
  return end_like(waited);
}

// A run that reports at its end also reports that it did nothing.
bool is_checked(const Run& run) {
  if (run.check || run.no_check || run.require) return !run.no_check;
  const bool talks =
      run.log.empty() ? settings().log >= LogLevel::kInfo : run.log == "info" || run.log == "trace";
  return talks || !run.report.empty() || !settings().report.empty();
}

// Returns the exit status; does not return if the program runs unchecked.
int run_program(Run& run) {
  if (run.observe && run.report.empty() && !is_set("TERSE_REPORT")) run.report = kObserved;
  const std::vector<Variable> variables = surroundings(run);
  if (run.dry) {
    std::vector<std::string> words;
    for (const std::string& word : run.command) words.push_back(shell_word(word));
    for (const Variable& v : variables)
      fmt::print("export {}={}\n", v.name, v.value.empty() ? "" : shell_word(v.value));
    fmt::print("{}\n", fmt::join(words, " "));
    return kDone;
  }
  for (const Variable& v : variables) setenv(v.name.c_str(), v.value.c_str(), 1);
  if (!is_checked(run)) return become(run.command);
  const int status = check_program(run.command, run.require);
  if (run.observe && run.report == kObserved)
    fmt::print(stderr, "terse: `terse report {}` shows what was observed on all ranks\n",
               kObserved);
  return status;
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  const CLI::Range many(0, std::numeric_limits<int>::max());
  const auto run = std::make_shared<Run>();
  CLI::App* command = app.add_subcommand("run", "Run a program with its NCCL calls compressed");
  CLI::Option* scheme = command->add_option(
      "--scheme", run->scheme,
      fmt::format("A scheme, a preset, or rules on one line (default: the rules of TERSE_SCHEME or "
                  "TERSE_POLICY, else {})",
                  kDefaultRules));
  scheme->check(not_missing);
  command->add_option("--policy", run->policy, "A file of rules, in TOML")
      ->check(not_missing)
      ->excludes(scheme);
  command->add_option("--profile", run->profile, "Profile of the machine, as TERSE_PROFILE")
      ->check(not_missing);
  command
      ->add_option("--nccl", run->nccl,
                   "Path of the NCCL to use (default: TERSE_NCCL, else the program's own)")
      ->check(not_missing);
  command->add_flag("--no-facade", run->without_facade,
                    "Only preload libterse_nccl.so; no libnccl.so.2 in front of the program's");
  command->add_flag("--observe", run->observe,
                    "Compress nothing; say in the end, and in reports, what would be, as "
                    "TERSE_OBSERVE");
  command->add_flag("--dry-run", run->dry, "Print what would be set and run, as a shell reads it");
  command
      ->add_option("--report", run->report, "A folder for a report of each rank, as TERSE_REPORT")
      ->check(not_missing);
  command
      ->add_option("--verify", run->verify,
                   "One in so many calls also runs natively, to know its error, as TERSE_VERIFY")
      ->check(many);
  command
      ->add_option("--trace", run->trace,
                   "So many last calls are kept for the report, as TERSE_TRACE")
      ->check(many);
  CLI::Option* check = command->add_flag(
      "--check", run->check,
      "Stay beside the program, and say so in the end where it has not used NCCL (the default "
      "with a report, or where TERSE_LOG is info or trace)");
  CLI::Option* no_check =
      command->add_flag("--no-check", run->no_check, "Become the program")->excludes(check);
  command
      ->add_flag("--require", run->require,
                 "End with an error where the program ends well and has compressed nothing on this "
                 "machine")
      ->excludes(no_check);
  command->add_option("--log", run->log, "What is said meanwhile, as TERSE_LOG")
      ->check(CLI::IsMember({"off", "error", "warn", "info", "trace"}));
  // All words behind the program's name are the program's.
  command->positionals_at_end();
  command->add_option("command", run->command, "The program and its arguments; -- may stand before")
      ->required();
  command->callback([run, &status] { status = run_program(*run); });
}

}  // namespace terse::cli
