// `terse plan`: steps of a call.
#include <cctype>
#include <map>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/link_load.h"
#include "cli/option_checks.h"
#include "engine/call/route.h"
#include "engine/comm/comm_windows.h"
#include "engine/comm/shape.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "policy/scheme.h"
#include "policy/settings.h"

namespace terse::cli {
namespace {

struct PlanRequest {
  std::string collective = "allreduce", scheme = "int8";
  size_t count = 1 << 20;
  size_t element_bytes = 4;
  int ranks = 4, rank = 0, root = 0, nodes = 1, pods = 1;
  bool gpu = false, fused = false;
};

// "allreduce" and so on.
const std::map<std::string, plan::Collective>& collectives() {
  static const auto all = [] {
    std::map<std::string, plan::Collective> map;
    for (size_t i = 0; i < plan::kCollectives; ++i) {
      std::string name = plan::name(static_cast<plan::Collective>(i));
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      map.emplace(std::move(name), static_cast<plan::Collective>(i));
    }
    return map;
  }();
  return all;
}

// Call in any type of that width; all are treated alike.
Request request_of(const PlanRequest& r, plan::Collective collective) {
  return {.collective = collective,
          .count = r.count,
          .datatype = r.element_bytes == 2 ? ncclFloat16 : ncclFloat32,
          .root = r.root};
}

void print_fused(const plan::Algorithm& algorithm, const plan::Shape& shape,
                 const plan::Delta& delta) {
  const plan::Fusion fusion = fusion_of(algorithm, shape, delta, settings().window_bytes);
  if (fusion.by_rank.empty())
    fmt::print("not fused, {}\n", fusion.reason);
  else
    fmt::print("{}", plan::print(fusion.by_rank[static_cast<size_t>(shape.rank)]));
}

void explain_plan(const PlanRequest& r) {
  const plan::Collective collective = collectives().at(r.collective);
  const Scheme scheme = require_on_ranks(parse_scheme(r.scheme), r.ranks);
  if (scheme.automatic) refuse("auto chooses for a machine: terse explain shows what");
  if (scheme.off) refuse("the scheme is off: the call goes to NCCL as it is");
  if (!plan::has_algorithm(collective, sharing_of(scheme.spec)))
    refuse("{} is for collectives that sum, and {} is none: it goes to NCCL as it is", r.scheme,
           r.collective);
  if (scheme.delta && collective != plan::Collective::kAllGather)
    refuse("delta is for allgather: {} goes to NCCL as it is", r.collective);
  for (const int rank : {r.rank, r.root})
    if (rank >= r.ranks) refuse("{} is not one of {}", rank, counted(r.ranks, "rank"));
  const plan::Topology topology = topology_of(r.ranks, r.nodes, r.pods);
  if (plan::is_point_to_point(collective) && r.root == r.rank)
    refuse("a message from rank {} to itself goes to NCCL as it is", r.rank);
  if (plan::is_point_to_point(collective) && codec::descriptor(scheme.spec.codec).codebook)
    refuse("all ranks hold the levels of {}: a message of two of them goes to NCCL as it is",
           r.scheme);
  if (bypass_reason(request_of(r, collective), r.ranks, scheme) == TERSE_BYPASS_DTYPE)
    refuse("the codes of {} are as wide as the elements: {} goes to NCCL as it is", r.scheme,
           r.collective);
  require_valid(settings());
  const plan::Shape shape =
      shape_of(scheme.forms(), r.count, r.element_bytes, {r.ranks, r.rank, r.root},
               {chunk_policy_of(settings(), plan::default_chunk_policy(r.gpu)), topology});
  require_feasible(collective, shape, false);
  const plan::Selection selection = plan::select(collective, shape, scheme.algorithm);
  // Differences, as of most calls.
  const plan::Delta delta{scheme.delta.base,
                          scheme.delta ? plan::Gathers::kDifferences : plan::Gathers::kAsUsual,
                          scheme.delta.own_exact};
  const plan::Plan plan = plan::build(*selection.algorithm, shape, delta);
  fmt::print("{} ({})\n{}", plan.algorithm, selection.reason, plan::print(plan));
  if (r.fused) print_fused(*selection.algorithm, shape, delta);
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto request = std::make_shared<PlanRequest>();
  CLI::App* plan = app.add_subcommand("plan", "Show how a collective would be done");
  plan->add_option("collective", request->collective, "What NCCL calls it, without the nccl")
      ->check(CLI::IsMember(collectives()))
      ->capture_default_str();
  plan->add_option("--scheme", request->scheme)->capture_default_str();
  plan->add_option("--count", request->count, "Elements, as the call counts them")
      ->check(CLI::Range(size_t{1}, SIZE_MAX))
      ->capture_default_str();
  plan->add_option("--element-bytes", request->element_bytes)
      ->check(CLI::IsMember({2, 4}))
      ->capture_default_str();
  plan->add_option("--ranks", request->ranks)
      ->check(CLI::Range(2, kMaxRanks))
      ->capture_default_str();
  plan->add_option("--rank", request->rank)
      ->check(CLI::Range(0, kMaxRanks - 1))
      ->capture_default_str();
  plan->add_option("--root", request->root, "The root, or the peer of send and recv")
      ->check(CLI::Range(0, kMaxRanks - 1))
      ->capture_default_str();
  plan->add_option("--nodes", request->nodes, "Hosts that the ranks are on")
      ->check(CLI::Range(1, kMaxRanks))
      ->capture_default_str();
  plan->add_option("--pods", request->pods, "Pods that the nodes are in (TERSE_POD)")
      ->check(CLI::Range(1, kMaxRanks))
      ->capture_default_str();
  plan->add_flag("--gpu", request->gpu, "Cut into chunks as for GPUs, not for hosts");
  plan->add_flag("--fused", request->fused,
                 "And how it is fused: one step, in windows of memory that the ranks of a node "
                 "open to each other (TERSE_FUSE)");
  plan->callback([request] { explain_plan(*request); });
}

}  // namespace terse::cli
