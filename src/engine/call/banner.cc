#include "engine/call/banner.h"

#include <atomic>

#include "base/log.h"
#include "engine/call/route.h"
#include "engine/call/trace.h"
#include "engine/comm/chooser.h"

namespace terse {
namespace {

constexpr size_t kLargeCall = size_t{64} << 20;  // bytes, a size at which links are busy

// "two-shot AllReduce int8:block=128,round=nearest"
std::string outcome_of_large(Communicator& c, plan::Collective collective) {
  const size_t shards = plan::shards(collective, c.ranks);
  const Request request{
      .collective = collective, .count = kLargeCall / sizeof(float) / shards, .comm = c.comm};
  const Prospect prospect{collective, request.count, codec::Dtype::kFloat32, c.ranks, request.root};
  const Route way = route_silently(c, request);
  if (way.bypass || nccl_sends_less(way.scheme, prospect, {c.plans.grain(), c.topology()}))
    return fmt::format("{} native", plan::name(collective));
  return fmt::format("{} {}", algorithm(c, request, way.scheme), print_scheme(way.scheme));
}

std::string banner(Communicator& c) {
  const int nodes = c.topology().nodes();
  std::string text = fmt::format(
      "terse {}.{}.{} compresses NCCL {} ({}) on {} rank{}, {} node{}. Of 64 MiB in fp32:",
      TERSE_VERSION_MAJOR, TERSE_VERSION_MINOR, TERSE_VERSION_PATCH, version(c.library),
      c.library.found.path, c.ranks, c.ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s");
  const char* separator = " ";
  for (const plan::Collective collective :
       {plan::Collective::kAllReduce, plan::Collective::kAllGather,
        plan::Collective::kReduceScatter}) {
    text += separator + outcome_of_large(c, collective);
    separator = ", ";
  }
  return text;
}

}  // namespace

void announce(Communicator& c) noexcept {
  static std::atomic<bool> done{false};
  if (done.load(std::memory_order_relaxed) || !c.agreed.number()) return;
  // Several of its ranks may be in this process, and rank 0 not be the one that comes first.
  if (!c.leads_report() || c.rank != 0) return;
  if (done.exchange(true) || !c.settings.policy.compresses()) return;
  try {
    note(c.rank, banner(c));
  } catch (const std::exception& e) {
    c.log(LogLevel::kInfo, "nothing is said of what is compressed: {}", e.what());
  }
}

}  // namespace terse
