// The command `terse`: runs programs under the interposer, and explains schemes, plans and
// settings.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "base/error.h"
#include "cli/run.h"
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

int run(int argc, char** argv) {
  CLI::App app("NCCL's collectives in fewer bits.", "terse");
  app.set_version_flag("--version", fmt::format("terse {}.{}.{}", TERSE_VERSION_MAJOR,
                                                TERSE_VERSION_MINOR, TERSE_VERSION_PATCH));
  app.require_subcommand(1);

  cli::add_run(app);

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

  CLI11_PARSE(app, argc, argv);
  return 0;
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
