#include <fmt/format.h>

#include "base/text.h"
#include "report/merged.h"

namespace terse::report {
namespace {

constexpr const char* kLine =
    "{:13} {:30} {:>7} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9} "
    "{:>9} {:>9} {:>8} {:>5}\n";

struct Cell {
  double (*value)(const Row&);
  std::string (*show)(double);
};

constexpr Cell kCells[] = {
    {value::calls, [](double x) { return fmt::format("{:.0f}", x); }},
    {value::raw, show_bytes},
    {value::wire, show_bytes},
    {value::ratio, show_ratio},
    {value::raw_off_node, show_bytes},
    {value::wire_off_node, show_bytes},
    {value::off_node_ratio, show_ratio},
    {value::total, show_seconds},
    {value::encode, show_seconds},
    {value::communicate, show_seconds},
    {value::decode, show_seconds},
    {value::median_error, show_error},
    {value::p99_error, show_error},
    {value::worst_error, show_error},
};

std::string line(const MergedRow& row, const char* which, double Spread::*member) {
  const bool first = member == &Spread::min, second = member == &Spread::median;
  std::vector<std::string> cells;
  for (const Cell& cell : kCells) {
    const Spread spread = row.spread(cell.value);
    cells.push_back(spread.count == 0 ? "-" : cell.show(spread.*member));
  }
  // The slowest rank takes longest; the late one, for which the others wait, communicates shortest.
  const Spread total = row.spread(value::total), communicate = row.spread(value::communicate);
  const bool last = member == &Spread::max && total.count != 0;
  const Row& kind = row.kind();
  return fmt::format(fmt::runtime(kLine),
                     first    ? kind.collective
                     : second ? show_rule(kind)
                              : "",
                     first ? kind.scheme : "", which, cells[0], cells[1], cells[2], cells[3],
                     cells[4], cells[5], cells[6], cells[7], cells[8], cells[9], cells[10],
                     cells[11], cells[12], cells[13], last ? std::to_string(total.max_rank) : "",
                     last ? std::to_string(communicate.min_rank) : "");
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
  for (const MergedCommunicator& c : merged.communicators) {
    size_t unreleased = 0;
    for (const Member& m : c.members) unreleased += !m.released;
    text += fmt::format(
        "\n{}, {} of {}{}{}\n", show_communicator(c.id, label(c.names)), c.members.size(),
        counted(c.ranks, "rank"), c.nodes > 1 ? fmt::format(", {} nodes", c.nodes) : "",
        unreleased == 0 ? "" : fmt::format(", {} of them not released", unreleased));
    if (!c.rows.empty())
      text += fmt::format(fmt::runtime(kLine), "collective", "scheme", "", "calls", "raw", "wire",
                          "ratio", "off node", "wire", "ratio", "a call", "encode", "communic.",
                          "decode", "error", "p99", "worst", "slowest", "late");
    for (const MergedRow& row : c.rows) {
      text += line(row, "min", &Spread::min) + line(row, "median", &Spread::median) +
              line(row, "max", &Spread::max);
      for (const std::string& words :
           {show_ratios(row), show_race(row.race(), row.raced()), show_prediction(row)})
        if (!words.empty()) text += words + "\n";
    }
    for (const auto& [how, calls] : c.deltas)
      text += fmt::format("delta: {} of all ranks, {}\n", counted(calls, "call"), how);
    for (const auto& [reason, calls] : c.bypasses)
      text += fmt::format("native: {} of all ranks, {}\n", counted(calls, "call"), reason);
    if (c.native.bytes != 0)
      text += fmt::format(
          "native: {} sent{}\n", show_bytes(c.native.bytes),
          c.nodes < 2 ? "" : fmt::format(", {} of them off node", show_bytes(c.native.off_node)));
  }
  return text + sizes(merged);
}

}  // namespace terse::report
