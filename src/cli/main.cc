// Command `terse`: runs programs under the preload library, and explains schemes, policies, plans
// and settings. Its subcommands have a file each.
#include <algorithm>
#include <cstdio>
#include <system_error>

#include "base/text.h"
#include "cli/colors.h"
#include "cli/commands.h"
#include "cli/examples.h"
#include "cli/manual.h"
#include "cli/option_checks.h"
#include "cli/texts.h"
#include "cli/version.h"
#include "cli/wrap.h"
#include "policy/nearest.h"

namespace {

using namespace terse::cli;

// Suggestion for an unknown option or command.
std::string hint_of(const CLI::App& app, const std::vector<std::string>& unexpected) {
  for (const std::string& word : unexpected) {
    std::vector<std::string> names;
    if (!word.starts_with("-"))
      for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    else
      for (const CLI::App* command : app.get_subcommands())
        for (const CLI::Option* option : command->get_options())
          for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    const std::vector<std::string_view> known(names.begin(), names.end());
    if (const std::string_view meant = terse::nearest(word.substr(0, word.find('=')), known);
        !meant.empty() && meant != word)
      return fmt::format("; did you mean {}?", meant);
  }
  return "";
}

// Words that no option takes, in the order of the command line, which CLI11 does not keep.
std::vector<std::string> unexpected_words(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> left = app.remaining(true), found;
  for (int i = 1; i < argc; ++i)
    if (const auto at = std::ranges::find(left, argv[i]); at != left.end()) {
      found.push_back(*at);
      left.erase(at);
    }
  return left.empty() ? found : app.remaining(true);
}

std::string what_is_refused(const CLI::ParseError& error,
                            const std::vector<std::string>& unexpected) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  return fmt::format("The following {} not expected: {}",
                     unexpected.size() == 1 ? "argument was" : "arguments were",
                     fmt::join(unexpected, " "));
}

// The program's own help has a few examples, a command's all of its own.
void add_examples(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    if (const std::string text = examples_of(command->get_name()); !text.empty()) {
      const std::string footer = command->get_footer();
      command->footer(footer.empty() ? text : footer + "\n\n" + text);
    }
  app.footer(examples_of("") + "\n" + app.get_footer());
}

int run(int argc, char** argv) {
  CLI::App app("NCCL's collectives in fewer bits.", "terse");
  app.set_version_flag("--version", version_and_build());
  app.add_flag_callback(
      "--man",
      [&] {
        fmt::print("{}", manual(app, version()));
        throw CLI::Success();
      },
      "Print the manual page: terse --man | man -l -");
  app.require_subcommand(0, 1);  // names an unknown command
  app.footer(
      "Exit status: 0 done, 1 a failure, 2 a bad command line. `terse run` ends with the program's "
      "own, or 127 where there is no such program and 126 where it cannot be run.");
  int status = kDone;
  for (const auto add : {add_explain, add_scheme, add_schemes, add_presets, add_plan, add_settings,
                         add_forecast, add_completion})
    add(app);
  for (const auto add : {add_run, add_report, add_compare, add_tune}) add(app, status);
  add_examples(app);
  try {
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) refuse("a command is missing");
  } catch (const CLI::CallForHelp&) {
    const std::string help = wrapped(app.help(), columns());
    fmt::print("{}", has_colors(stdout) ? colored_help(help) : help);
    return kDone;
  } catch (const CLI::Success& asked) {  // for the version, or the manual
    return app.exit(asked);
  } catch (const CLI::ParseError& e) {
    const std::vector<std::string> unexpected = unexpected_words(app, argc, argv);
    const std::string refused = what_is_refused(e, unexpected);
    fmt::print(stderr, "{} {}{}\nTry terse --help, or --help after its commands.\n",
               complaint_prefix(), terse::printable(terse::shortened_within(refused, 1000)),
               hint_of(app, unexpected));
    return kBadUsage;
  }
  return status;
}

// Message for output that cannot be written, whether fmt::print() or the last flush has found it.
std::string what_is_wrong(const std::exception& e) {
  const auto* const error = dynamic_cast<const std::system_error*>(&e);
  if (error == nullptr || !std::ferror(stdout)) return e.what();
  return "cannot write standard output: " + error->code().message();
}

}  // namespace

int main(int argc, char** argv) {
  int status = kDone;
  try {
    status = run(argc, argv);
    flush_output();
    return status;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{} {}\n", complaint_prefix(), what_is_wrong(e));
    return status == kDone ? kFailed : status;
  }
}
