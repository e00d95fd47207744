#include "engine/call/banner.h"

#include <atomic>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/text.h"
#include "engine/call/route.h"
#include "engine/call/trace.h"
#include "engine/comm/chooser.h"
#include "policy/datatype.h"
#include "policy/reasons.h"

namespace terse {
namespace {

constexpr size_t kLargeCall = size_t{64} << 20;  // bytes, a size at which links are busy

Request large_call(const Communicator& c, plan::Collective collective, ncclDataType_t datatype) {
  return {.collective = collective,
          .count = kLargeCall / datatype_size(datatype) / plan::shards(collective, c.ranks),
          .datatype = datatype};
}

// Example: "fused two-shot AllReduce int8:block=128,round=nearest". Empty: native.
std::optional<std::string> compression_of_large(Communicator& c, plan::Collective collective,
                                                ncclDataType_t datatype) {
  const Request request = large_call(c, collective, datatype);
  codec::Dtype dtype{};
  compressible(datatype, &dtype);
  const Prospect prospect{collective, request.count, dtype, c.ranks, request.root};
  const Route taken = route_silently(c, request);
  if (taken.bypass()) return std::nullopt;
  const Scheme& scheme = taken.compressed().scheme;
  if (nccl_sends_less(scheme, prospect, c.routing().machines()) ||
      (!taken.choice && is_predicted_slow(c, request, scheme)))
    return std::nullopt;
  return fmt::format("{}{} {}", is_to_be_fused(c, request, scheme) ? "fused " : "",
                     algorithm(c, request, scheme), print_scheme(scheme));
}

// Reason why no large call is compressed: the first condition of a rule that does not hold.
std::string why_nothing(Communicator& c) {
  const Request request = large_call(c, plan::Collective::kAllReduce, ncclFloat32);
  const Facts facts = facts_of(c, request);
  for (const Rule& rule : c.settings.policy.rules) {
    const char* const key = rule.scheme.off ? nullptr : rule.match.refusal(facts);
    if (key == nullptr || std::string_view(key) == "collective") continue;  // of a preset's rules
    const uint64_t nodes = rule.match.nodes.first;
    if (std::string_view(key) == "nodes" && static_cast<uint64_t>(facts.nodes) < nodes)
      return fmt::format("; the rules are for {}{}, --scheme safe is for one, too",
                         counted(nodes, "node"), nodes < rule.match.nodes.last ? " or more" : "");
    return fmt::format("; the rules are for other values of {}", key);
  }
  const Route taken = route_silently(c, request);
  if (!taken.bypass() && !taken.choice && is_predicted_slow(c, request, taken.compressed().scheme))
    return fmt::format("; {}", bypass_reason(TERSE_BYPASS_SLOW));
  return fmt::format("; {}", bypass_reason(taken.bypass().value_or(TERSE_BYPASS_LINK)));
}

struct Banner {
  std::string text;
  bool compresses = false;
};

Banner banner(Communicator& c) {
  const int nodes = c.topology().nodes();
  Banner b;
  const model::Profile* const nearest = c.routing().nearest_profile();
  b.text = fmt::format(
      "terse {}.{}.{} {} NCCL {} ({}) on {} rank{}, {} node{}{}. Of 64 MiB in fp32:",
      TERSE_VERSION_MAJOR, TERSE_VERSION_MINOR, TERSE_VERSION_PATCH,
      c.settings.observe ? "only observes" : "compresses", version(c.library), c.library.found.path,
      c.ranks, c.ranks == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s",
      nearest != nullptr ? ", by the nearest built-in profile, " + nearest->name : "");
  const char* separator = " ";
  for (const plan::Collective collective :
       {plan::Collective::kAllReduce, plan::Collective::kAllGather,
        plan::Collective::kReduceScatter}) {
    const auto compression = compression_of_large(c, collective, ncclFloat32);
    b.text += separator + compression.value_or(fmt::format("{} native", plan::name(collective)));
    b.compresses |= compression.has_value();
    separator = ", ";
    if (compression) continue;
    if (const auto half = compression_of_large(c, collective, ncclBfloat16)) {
      b.text += fmt::format(" (in bf16 {})", *half);
      b.compresses = true;
    }
  }
  if (!b.compresses) b.text += why_nothing(c);
  return b;
}

enum class BannerState { kNothing, kOfNative, kOfCompressed };

}  // namespace

void announce(Communicator& c) noexcept {
  static std::atomic<BannerState> state{BannerState::kNothing};
  BannerState before = state.load(std::memory_order_relaxed);
  if (before == BannerState::kOfCompressed || c.announced() || !c.agreed().number()) return;
  // Several ranks may be in this process, and rank 0 need not come first.
  if (c.rank != 0 || (before == BannerState::kNothing && !c.is_reporting())) return;
  if (!c.take_announcement() || !c.settings.policy.compresses()) return;
  try {
    const Banner b = banner(c);
    const BannerState now = b.compresses ? BannerState::kOfCompressed : BannerState::kOfNative;
    if (now != before && state.compare_exchange_strong(before, now)) note(c.rank, b.text);
  } catch (const std::exception& e) {
    log(LogLevel::kWarn, "calls of 64 MiB in fp32 would fail: {}", e.what());
  }
}

}  // namespace terse
