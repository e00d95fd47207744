// The command `terse`: runs programs under the interposer, and explains schemes, plans and
// settings.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "cli/report.h"
#include "codec/spec.h"
#include "engine/shape.h"
#include "plan/select.h"
#include "policy/settings.h"
#include "terse/terse.h"

namespace {

using namespace terse;

void explain_scheme(const std::string& text) {
  const Scheme scheme = parse_scheme(text);
  fmt::print("{}\n", print_scheme(scheme));
  if (scheme.off) return;
  const size_t count = size_t{scheme.spec.block} * 1024;
  const double bits = 8.0 * codec::body_size(scheme.spec, count) / count;
  fmt::print("{:.4g} bits an element: 1/{:.4g} of fp32, 1/{:.4g} of fp16 and bf16\n", bits,
             32 / bits, 16 / bits);
}

struct PlanRequest {
  std::string collective = "allreduce", scheme = "int8";
  size_t count = 1 << 20;
  size_t element_bytes = 4;
  int ranks = 4, rank = 0;
};

void explain_plan(const PlanRequest& r) {
  static const std::map<std::string, plan::Collective> kCollectives = {
      {"allreduce", plan::Collective::kAllReduce},
      {"allgather", plan::Collective::kAllGather},
      {"reducescatter", plan::Collective::kReduceScatter}};
  const Scheme scheme = parse_scheme(r.scheme);
  if (scheme.off) fail(ncclInvalidArgument, "the scheme is off: the call goes to NCCL as it is");
  if (r.ranks < 2 || r.rank < 0 || r.rank >= r.ranks || r.count == 0)
    fail(ncclInvalidArgument, "a plan needs elements, two ranks or more, and a rank among them");
  const plan::Shape shape = shape_of(scheme.spec, r.count, r.element_bytes, r.ranks, r.rank);
  const plan::Selection selection =
      plan::select(kCollectives.at(r.collective), shape, static_cast<plan::Wish>(scheme.algorithm));
  const plan::Plan plan = selection.build(shape);
  fmt::print("{} ({})\n{}", plan.algorithm, selection.reason, plan::print(plan));
}

// lib/libterse_nccl.so beside this program's bin/.
std::string preload_path() {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path library = self.parent_path().parent_path() / "lib/libterse_nccl.so";
  if (!std::filesystem::exists(library)) fail(ncclSystemError, "there is no {}", library.string());
  return library.string();
}

// Does not return on success.
void run_program(const std::string& scheme, std::vector<std::string> command) {
  const std::string canonical = print_scheme(parse_scheme(scheme));
  std::string preload = preload_path();
  if (const char* others = std::getenv("LD_PRELOAD"); others != nullptr && *others != '\0')
    preload = preload + ":" + others;
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("TERSE_SCHEME", canonical.c_str(), 1);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  fail(ncclSystemError, "{}: {}", command[0], std::strerror(errno));
}

int run(int argc, char** argv) {
  CLI::App app("NCCL's collectives in fewer bits.", "terse");
  app.set_version_flag("--version", fmt::format("terse {}.{}.{}", TERSE_VERSION_MAJOR,
                                                TERSE_VERSION_MINOR, TERSE_VERSION_PATCH));
  app.require_subcommand(1);

  std::string scheme = "int8";
  std::vector<std::string> command;
  CLI::App* run = app.add_subcommand("run", "Run a program with its NCCL calls compressed");
  run->add_option("--scheme", scheme, "The scheme, e.g. int4:block=128")->capture_default_str();
  run->add_option("command", command, "The program and its arguments, after --")->required();
  run->callback([&] { run_program(scheme, command); });

  std::string text;
  CLI::App* explain = app.add_subcommand("scheme", "Check and explain a scheme");
  explain->add_option("text", text, "NAME[:key=value,...]")->required();
  explain->callback([&] { explain_scheme(text); });

  PlanRequest request;
  CLI::App* plan = app.add_subcommand("plan", "Show how a collective would be done");
  plan->add_option("collective", request.collective, "allreduce, allgather or reducescatter")
      ->check(CLI::IsMember({"allreduce", "allgather", "reducescatter"}))
      ->capture_default_str();
  plan->add_option("--scheme", request.scheme)->capture_default_str();
  plan->add_option("--count", request.count, "Elements, as the call counts them")
      ->capture_default_str();
  plan->add_option("--element-bytes", request.element_bytes)
      ->check(CLI::IsMember({2, 4}))
      ->capture_default_str();
  plan->add_option("--ranks", request.ranks)->capture_default_str();
  plan->add_option("--rank", request.rank)->capture_default_str();
  plan->callback([&] { explain_plan(request); });

  CLI::App* environment = app.add_subcommand("settings", "List the settings in the environment");
  environment->callback([] {
    fmt::print("{}", describe_settings());
    require_valid(settings());
  });

  int result = 0;
  cli::ReportRequest wanted;
  CLI::App* report = app.add_subcommand("report", "Bring the reports of all ranks together");
  report->add_option("folder", wanted.folder, "Where TERSE_REPORT had them written")->required();
  report->add_option("--json", wanted.json, "Write the numbers to this file");
  report->add_option("--html", wanted.html, "Write a page with plots to this file");
  report->callback([&] { result = cli::report(wanted); });

  CLI11_PARSE(app, argc, argv);
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "terse: {}\n", e.what());
    return 1;
  }
}
