#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "base/text.h"
#include "report/merged_report.h"

namespace terse::report {
namespace {

// One figure of a row's ranks. A rank is named beside the figures that have one: the slowest rank
// takes longest; the late one, for which the others wait, communicates shortest.
struct Figure {
  const char* label;
  double (*value)(const Row&);
  std::string (*show)(double);
  int Spread::*rank = nullptr;
  const char* meaning = "";
  const char* observed =
      "";  // label of observed calls; "": the same, null: it says nothing of them

  const char* label_of(const Row& row) const {
    const bool is_observed = !row.message.empty();
    return !is_observed || (observed != nullptr && *observed == 0) ? label : observed;
  }
};

constexpr Figure kFigures[] = {
    {"calls", value::calls, [](double x) { return fmt::format("{:.0f}", x); }},
    {"bytes natively", value::raw, show_bytes},
    {.label = "bytes sent", .value = value::wire, .show = show_bytes, .observed = "would send"},
    {"times less", value::ratio, show_ratio},
    {"off the node, natively", value::raw_off_node, show_bytes},
    {.label = "off the node, sent",
     .value = value::wire_off_node,
     .show = show_bytes,
     .observed = "off the node, would send"},
    {"times less", value::off_node_ratio, show_ratio},
    {"off the pod, natively", value::raw_off_pod, show_bytes},
    {.label = "off the pod, sent",
     .value = value::wire_off_pod,
     .show = show_bytes,
     .observed = "off the pod, would send"},
    {"times less", value::off_pod_ratio, show_ratio},
    {"a call takes", value::total, show_seconds, &Spread::max_rank, "is slowest"},
    {.label = "  encode", .value = value::encode, .show = show_seconds, .observed = nullptr},
    {"  communicate", value::communicate, show_seconds, &Spread::min_rank, "is late"},
    {"  fused", value::fused, show_seconds, &Spread::min_rank, "is late"},
    {.label = "  decode", .value = value::decode, .show = show_seconds, .observed = nullptr},
    {"error, median", value::median_error, show_error},
    {"error, 99th percentile", value::p99_error, show_error},
    {"error, worst", value::worst_error, show_error},
};

// Lines of at most 100 columns: a heading, and each figure that is known.
std::string block(const MergedRow& row) {
  const Row& kind = row.kind();
  std::string text = fmt::format("{}, {}, {}\n", kind.collective, kind.scheme, show_rule(kind));
  if (!kind.message.empty()) text += fmt::format("  of {}\n", kind.message);
  for (const Figure& f : kFigures) {
    const char* const label = f.label_of(kind);
    const Spread spread = row.spread(f.value);
    if (label == nullptr || spread.count == 0 ||
        (std::string_view(f.label) == "off the node, natively" && !row.sum().leaves_node()))
      continue;
    // A call's waiting is in both, or in one of them alone.
    const Spread ranks = f.rank == &Spread::min_rank ? row.spread(value::waiting) : spread;
    const std::string rank = f.rank == nullptr || row.ranks.size() < 2 || spread.max == 0
                                 ? ""
                                 : fmt::format("  rank {} {}", ranks.*f.rank, f.meaning);
    text += fmt::format("  {:24} {:>12} {:>12} {:>12}{}\n", label, f.show(spread.min),
                        f.show(spread.median), f.show(spread.max), rank);
  }
  return text;
}

// Seconds that compression has saved a process, on average, by the calls that also ran natively.
// Empty: none did.
std::string saved(const Merged& merged) {
  double seconds = 0, calls = 0;
  for (const MergedCommunicator& c : merged.communicators)
    for (const MergedRow& row : c.rows) {
      const Race race = row.race();
      if (race.calls == 0) continue;
      calls += row.sum().calls;
      seconds +=
          (race.native - race.compressed) / static_cast<double>(race.calls) * row.sum().calls;
    }
  if (calls == 0) return "";
  return fmt::format("compression {} {} a process, by the calls that ran both ways (of {:.0f})\n",
                     seconds < 0 ? "has cost" : "has saved",
                     show_seconds(std::abs(seconds) / static_cast<double>(merged.files.size())),
                     calls);
}

// Calls of all ranks and communicators by the size of the whole message.
std::string sizes(const Merged& merged) {
  constexpr const char* kSizes = "{:21} {:>12} {:>9} {:>12} {:>9} {:>12} {:>9}\n";
  std::string text;
  for (const SizeLine& line : size_lines(merged)) {
    std::vector<std::string> cells;
    for (const SizesSum::Class& c : line.fates) {
      cells.push_back(c.count == 0 ? "-" : std::to_string(c.count));
      cells.push_back(c.count == 0 ? "-" : show_bytes(c.bytes));
    }
    text += fmt::format(fmt::runtime(kSizes), line.from, cells[0], cells[1], cells[2], cells[3],
                        cells[4], cells[5]);
  }
  if (text.empty()) return "";
  return "\n" +
         fmt::format(fmt::runtime(kSizes), "messages, all ranks", "compressed", "bytes", "skipped",
                     "bytes", "native", "bytes") +
         text;
}

}  // namespace

std::string table(const Merged& merged) {
  std::string text = fmt::format("terse {}, {}, policy: {}\n", merged.terse,
                                 counted(merged.files.size(), "report"), merged.policy);
  if (merged.observed)
    text += fmt::format("observed, all ranks: {}\n", show_verdict(*merged.observed));
  text += saved(merged);
  for (const MergedCommunicator& c : merged.communicators) {
    size_t unreleased = 0;
    for (const Member& m : c.members) unreleased += !m.released;
    text += fmt::format(
        "\n{}, {} of {}{}{}\n", show_communicator(c.id, label(c.names)), c.members.size(),
        counted(c.ranks, "rank"), c.nodes > 1 ? fmt::format(", {} nodes", c.nodes) : "",
        unreleased == 0 ? "" : fmt::format(", {} of them not released", unreleased));
    if (!c.rows.empty())
      text += fmt::format("{:26} {:>12} {:>12} {:>12}\n", "of its ranks", "min", "median", "max");
    for (const MergedRow& row : c.rows) {
      text += block(row);
      for (const std::string& words : {show_error_scale(row.kind()), show_ratios(row),
                                       show_race(row.race(), row.raced()), show_prediction(row)})
        if (!words.empty()) text += words + "\n";
    }
    for (const auto& [how, calls] : c.deltas)
      text += fmt::format("delta: {} of all ranks, {}\n", counted(calls, "call"), how);
    for (const auto& [reason, calls] : c.bypasses)
      text += fmt::format("native: {} of all ranks, {}\n", counted(calls, "call"), reason);
    if (c.native.bytes != 0)
      text += fmt::format(
          "native: {} sent{}{}\n", show_bytes(c.native.bytes),
          c.nodes < 2 ? "" : fmt::format(", {} of them off node", show_bytes(c.native.off_node)),
          c.native.off_pod == 0 ? "" : fmt::format(", {} off pod", show_bytes(c.native.off_pod)));
  }
  return text + sizes(merged);
}

}  // namespace terse::report
