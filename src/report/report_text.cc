#include <fmt/format.h>

#include "base/text.h"
#include "report/report.h"

namespace terse::report {
namespace {

std::string each(double sum, uint64_t calls) {
  return calls == 0 ? "-" : show_seconds(sum / static_cast<double>(calls));
}

std::string error(const Row& r, unsigned percent) {
  return r.error.calls() == 0 ? "-" : show_error(r.error.relative.percentile(percent));
}

// Observed calls have a message.
std::string traffic(const char* where, const Row& r, uint64_t raw, uint64_t wire, double ratio) {
  return fmt::format("  {}: natively {}, {} {}, {} times less\n", where,
                     show_bytes(static_cast<double>(raw)),
                     r.message.empty() ? "sent" : "would send",
                     show_bytes(static_cast<double>(wire)), show_ratio(ratio));
}

// Times of a call's parts, or of a fused one.
std::string phases(const Row& r) {
  const Times& t = r.times;
  std::string text = fmt::format("  a call takes {}", each(t.total, t.calls));
  if (t.fused != t.total)
    text += fmt::format(": encode {}, communicate {}, decode {}", each(t.encode, t.calls),
                        each(t.communicate, t.calls), each(t.decode, t.calls));
  if (r.fused_calls == 0) return text + "\n";
  if (t.fused == t.total) return text + ", fused\n";
  return fmt::format("{}\n  fused: {} of the calls, {} of all calls' {}\n", text, r.fused_calls,
                     show_seconds(t.fused), show_seconds(t.total));
}

// Lines of at most 100 columns.
std::string row(const Row& r) {
  std::string text = fmt::format("{}, {}: {}\n", r.collective, r.scheme, counted(r.calls, "call"));
  if (!r.message.empty()) text += fmt::format("  of {}\n", r.message);
  text += traffic("bytes", r, r.raw.bytes, r.wire.bytes, r.ratio());
  if (r.leaves_node())
    text += traffic("off the node", r, r.raw.off_node, r.wire.off_node, r.off_node_ratio());
  if (r.leaves_pod())
    text += traffic("off the pod", r, r.raw.off_pod, r.wire.off_pod, r.off_pod_ratio());
  if (r.times.calls != 0 && !r.message.empty())
    text += fmt::format("  a call takes {}, natively\n", each(r.times.total, r.times.calls));
  if (r.times.calls != 0 && r.message.empty()) text += phases(r);
  if (r.error.calls() != 0)
    text += fmt::format("  error: median {}, 99th percentile {}, worst {}\n", error(r, 50),
                        error(r, 99), error(r, 100));
  if (const std::string words = show_error_scale(r); !words.empty()) text += "  " + words + "\n";
  return text;
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
