#include <fmt/format.h>

#include "base/text.h"
#include "report/report.h"

namespace terse::report {
namespace {

constexpr const char* kRow =
    "{:14} {:28} {:>8} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} "
    "{:>9} {:>9} {:>9}\n";

std::string each(double sum, uint64_t calls) {
  return calls == 0 ? "-" : show_seconds(sum / static_cast<double>(calls));
}

std::string error(const Row& r, unsigned percent) {
  return r.error.calls() == 0 ? "-" : show_error(r.error.relative.percentile(percent));
}

std::string row(const Row& r) {
  return fmt::format(fmt::runtime(kRow), r.collective, r.scheme, r.calls,
                     show_bytes(static_cast<double>(r.raw.bytes)),
                     show_bytes(static_cast<double>(r.wire.bytes)), show_ratio(r.ratio()),
                     r.leaves_node() ? show_bytes(static_cast<double>(r.raw.off_node)) : "-",
                     r.leaves_node() ? show_bytes(static_cast<double>(r.wire.off_node)) : "-",
                     show_ratio(r.off_node_ratio()), each(r.times.total, r.times.calls),
                     each(r.times.encode, r.times.calls), each(r.times.communicate, r.times.calls),
                     each(r.times.decode, r.times.calls), error(r, 50), error(r, 99),
                     error(r, 100));
}

// How auto's prediction compares with what was measured.
std::string prediction(const Row& r) {
  if (r.times.predicted == 0 || r.times.calls == 0) return "";
  if (r.times.predicted_native != 0)
    return fmt::format("  predicted {} a call, natively {}\n",
                       each(r.times.predicted, r.times.calls),
                       each(r.times.predicted_native, r.times.calls));
  return fmt::format("  auto predicted {} a call, {:.2f} times what was measured\n",
                     each(r.times.predicted, r.times.calls), r.times.predicted / r.times.total);
}

std::string race(const Row& r) {
  const std::string words = show_race(r.race, r.race.calls);
  return words.empty() ? "" : "  " + words + "\n";
}

std::string levels(const Levels& l) {
  constexpr size_t kMax = 16;  // more are for programs to read
  std::string at;
  if (l.at.size() <= kMax)
    for (const float level : l.at) at += fmt::format(" {:.3g}", level);
  return fmt::format("levels: {} of {} {}, {}, fitted {}:{}\n", l.collective, l.count, l.dtype,
                     l.scheme, counted(l.fits, "time"),
                     at.empty() ? fmt::format(" {}", l.at.size()) : at);
}

}  // namespace

std::string to_text(const Report& r) {
  std::string text = fmt::format("terse {} on {}, process {}, {}\npolicy: {}\n", r.terse,
                                 printable(r.host), r.pid, r.written, r.policy);
  if (r.observed) text += fmt::format("observed: {}\n", show_verdict(verdict_of(r)));
  for (const Communicator& c : r.communicators) {
    text +=
        fmt::format("\n{}, rank {} of {}{}{}\n", show_communicator(c.id, label(c.names)), c.rank,
                    c.ranks, c.nodes > 1 ? fmt::format(", node {} of {}", c.node, c.nodes) : "",
                    c.released ? "" : " (not released: some measurements may be missing)");
    if (!c.rows.empty())
      text += fmt::format(fmt::runtime(kRow), "collective", "scheme", "calls", "raw", "wire",
                          "ratio", "off node", "wire", "ratio", "a call", "encode", "communic.",
                          "decode", "error", "p99", "worst");
    for (const Row& each : c.rows) text += row(each) + race(each) + prediction(each);
    for (const Levels& each : c.levels) text += levels(each);
    for (const auto& [how, calls] : c.deltas)
      text += fmt::format("delta: {}, {}\n", counted(calls, "call"), how);
    for (const auto& [reason, calls] : c.bypasses)
      text += fmt::format("native: {}, {}\n", counted(calls, "call"), reason);
  }
  if (r.left_out != 0) text += fmt::format("\nand {} more\n", counted(r.left_out, "communicator"));
  return text;
}

}  // namespace terse::report
