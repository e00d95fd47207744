#include "cli/link.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "cli/text.h"

namespace terse::cli {
namespace {

struct Unit {
  std::string_view name;
  double bits;
};
constexpr Unit kUnits[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1e3);
  return fmt::format("{:.3g} s", seconds);
}

}  // namespace

Traffic traffic_of(const Layout& layout, const std::function<plan::Plan(int rank)>& plan_of) {
  if (layout.nodes == 1) {
    const plan::Plan plan = plan_of(0);
    return {"each rank's link", plan.raw_bytes, plan.wire_bytes};
  }
  const int per_node = (layout.ranks + layout.nodes - 1) / layout.nodes;
  Traffic traffic{per_node == 1 ? "each node's link"
                                : fmt::format("each node's link, shared by {} ranks", per_node)};
  uint64_t sent = 0, raw = 0;
  for (int rank = 0; rank < per_node; ++rank) {
    const plan::Plan plan = plan_of(rank);
    for (const plan::Step& step : plan.steps)
      for (const plan::Transfer& t : step.transfers)
        if (t.send && t.peer >= per_node) traffic.compressed += t.bytes;
    sent += plan.wire_bytes;
    if (rank == 0) traffic.native = plan.raw_bytes;
    raw += plan.raw_bytes;
  }
  // As the compressed bytes are divided between the link and the node's own ranks.
  if (!layout.ring && sent != 0)
    traffic.native =
        static_cast<uint64_t>(static_cast<double>(raw) * static_cast<double>(traffic.compressed) /
                              static_cast<double>(sent));
  return traffic;
}

double parse_rate(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && std::isfinite(number) && number > 0)
    for (const Unit& unit : kUnits)
      if (unit.name == std::string_view(rest, end)) return number * unit.bits / 8;
  fail(ncclInvalidArgument, "{}: not a rate such as 1gbit, 2.5gbit or 400mbit", text);
}

void print_times(const Traffic& traffic, const std::string& rate) {
  const double bytes = parse_rate(rate);
  const double native = static_cast<double>(traffic.native) / bytes;
  const double compressed = static_cast<double>(traffic.compressed) / bytes;
  fmt::print("{} at {}: {} in {}, native {} in {}: {:.3g}x\n", traffic.link, rate,
             bytes_text(traffic.compressed), duration(compressed), bytes_text(traffic.native),
             duration(native), native / compressed);
  fmt::print(
      "These times are bounds: bytes over bandwidth, without the codec's time and without "
      "latency.\n");
}

}  // namespace terse::cli
