#include "cli/link_load.h"

#include <charconv>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "cli/texts.h"
#include "report/report.h"

namespace terse::cli {
namespace {

struct Unit {
  std::string_view name;
  double bits;
};
constexpr Unit kUnits[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};

}  // namespace

Load load_of_node(const plan::Algorithm& algorithm, const plan::Shape& shape) {
  const int ranks = shape.topology.size.front();
  const plan::Link link = plan::link_of(algorithm, shape);
  return {
      ranks == 1 ? "each node's link" : fmt::format("each node's link, shared by {} ranks", ranks),
      link.native.off_node, link.compressed.off_node};
}

double parse_rate(const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  for (const Unit& unit : kUnits) {
    const double bytes = number * unit.bits / 8;
    if (error == std::errc() && unit.name == std::string_view(rest, end) && bytes >= 1 &&
        std::isfinite(bytes))
      return bytes;
  }
  fail(ncclInvalidArgument, "{}: not a rate such as 1gbit, 2.5gbit or 400mbit", text);
}

void print_times(const Load& load, const std::string& rate) {
  const double bytes = parse_rate(rate);
  const double native = static_cast<double>(load.native) / bytes;
  const double compressed = static_cast<double>(load.compressed) / bytes;
  fmt::print("{} at {}: {} in {}, native {} in {}: {:.3g}x\n", load.link, rate,
             bytes_text(load.compressed), report::show_seconds(compressed), bytes_text(load.native),
             report::show_seconds(native), native / compressed);
  fmt::print(
      "These times are bounds: bytes over bandwidth, without the codec's time and without "
      "latency.\n");
}

}  // namespace terse::cli
