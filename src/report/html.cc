// The page of `terse report --html`: tables and plots.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "report/merged_report.h"
#include "report/page.h"

namespace terse::report {
namespace {

std::string count(double x) { return fmt::format("{:.0f}", x); }
std::string ratio(double x) { return std::isnan(x) ? "-" : fmt::format("{:.2f}x", x); }

struct Column {
  const char* title;
  double (*value)(const Row&);
  std::string (*show)(double);
};

// A table that is wider than the page scrolls by itself.
const std::string kTable = "<div class=\"scroll\"><table>\n", kTableEnd = "</table></div>\n";

constexpr size_t kMaxLines = 32;  // of ranks; more are cells of a map
constexpr size_t kNotable = 8;    // of them the table has so many of the slowest, and of the late

constexpr Column kColumns[] = {
    {"calls", value::calls, count},
    {"raw", value::raw, show_bytes},
    {"wire", value::wire, show_bytes},
    {"ratio", value::ratio, ratio},
    {"off node", value::raw_off_node, show_bytes},
    {"wire", value::wire_off_node, show_bytes},
    {"ratio", value::off_node_ratio, ratio},
    {"a call", value::total, show_seconds},
    {"encode", value::encode, show_seconds},
    {"communicate", value::communicate, show_seconds},
    {"decode", value::decode, show_seconds},
    {"fused", value::fused, show_seconds},
    {"native*", value::native_time, show_seconds},
    {"compressed*", value::raced_time, show_seconds},
    {"speed-up*", value::speedup, ratio},
    {"error", value::median_error, show_error},
    {"p99", value::p99_error, show_error},
    {"worst", value::worst_error, show_error},
};

std::string bytes_plot(const MergedRow& row) {
  const double raw = row.spread(value::raw).median, wire = row.spread(value::wire).median;
  std::vector<Line> lines = {{"native", {{raw, "faint", show_bytes(raw)}}},
                             {"on the wire", {{wire, "bar", show_bytes(wire)}}}};
  if (row.spread(value::wire_off_node).count != 0) {
    const double raw_off = row.spread(value::raw_off_node).median;
    const double wire_off = row.spread(value::wire_off_node).median;
    lines.push_back({"off node, native", {{raw_off, "faint", show_bytes(raw_off)}}});
    lines.push_back({"off node", {{wire_off, "bar", show_bytes(wire_off)}}});
  }
  return "<h4>Bytes that a rank sends (median)</h4>\n" + plot(lines, 18);
}

// Place of a rank: "rank 17, node 2, host".
std::string place(const MergedCommunicator& c, int rank) {
  const auto at = std::ranges::lower_bound(c.members, rank, {}, &Member::rank);
  return fmt::format("rank {}{}, {}", rank, c.nodes > 1 ? fmt::format(", node {}", at->node) : "",
                     at->host);
}

// Map of all ranks that have such calls, in order, 32 in a line.
std::string map_of(const MergedCommunicator& c, const MergedRow& row, double (*shade)(const Row&)) {
  std::vector<Cell> cells;
  for (const RankRow& r : row.ranks) {
    const double total = value::total(r.row), error = value::median_error(r.row);
    std::string text = place(c, r.rank);
    if (!std::isnan(total))
      text += fmt::format(": {} a call, {} communicating", show_seconds(total),
                          show_seconds(value::waiting(r.row)));
    text += fmt::format("; {} sent", show_bytes(value::wire(r.row)));
    if (!std::isnan(error)) text += fmt::format("; error {}", show_error(error));
    cells.push_back({shade(r.row), std::move(text)});
  }
  return heat_map(cells);
}

std::string times_map(const MergedCommunicator& c, const MergedRow& row) {
  const Spread total = row.spread(value::total), wire = row.spread(value::wire);
  const bool timed = total.count != 0;
  return fmt::format(
             "<h4>Ranks {} to {}, 32 in a line: {}, {} to {}, the darker the {}</h4>\n",
             row.ranks.front().rank, row.ranks.back().rank, timed ? "time of a call" : "bytes sent",
             timed ? show_seconds(total.min) : show_bytes(wire.min),
             timed ? show_seconds(total.max) : show_bytes(wire.max), timed ? "longer" : "more") +
         map_of(c, row, timed ? value::total : value::wire);
}

std::string times_plot(const MergedCommunicator& c, const MergedRow& row) {
  if (row.ranks.size() > kMaxLines) return times_map(c, row);
  if (row.spread(value::total).count == 0) return "";
  std::vector<Line> lines;
  for (const RankRow& r : row.ranks) {
    if (r.row.times.calls == 0) continue;
    Line line{fmt::format("rank {}", r.rank), {}};
    const auto add = [&](double value, const char* colour) {
      line.bars.push_back({value, colour, show_seconds(value)});
    };
    add(value::total(r.row), "faint");
    add(value::encode(r.row), "encode");
    add(value::communicate(r.row), "communicate");
    add(value::decode(r.row), "decode");
    if (r.row.fused_calls != 0) add(value::fused(r.row), "communicate");
    lines.push_back(std::move(line));
  }
  return "<h4>Time of a call; its phases overlap</h4>\n"
         "<p class=\"key\"><i style=\"background: var(--faint)\"></i>the call"
         "<i style=\"background: var(--encode)\"></i>encode"
         "<i style=\"background: var(--communicate)\"></i>communicate, and wait for others; or a "
         "fused call"
         "<i style=\"background: var(--decode)\"></i>decode and reduce</p>\n" +
         plot(lines, 13);
}

std::string course_plot(const MergedRow& row) {
  const DownsampledSeries course = row.course();
  Strip errors{.mean = {},
               .worst = {},
               .show_x = [](double x) { return fmt::format("call {:.0f}", x); },
               .show_y = show_error};
  for (const DownsampledSeries::Point& p : course.points) {
    const auto at = static_cast<double>(p.at);
    errors.mean.emplace_back(at, p.mean());
    errors.worst.emplace_back(at, p.greatest);
  }
  const std::string picture = strip(errors);
  if (picture.empty()) return "";
  return "<p class=\"key\"><i style=\"background: var(--bar)\"></i>mean error, call by call"
         "<i style=\"background: var(--faint)\"></i>worst</p>\n" +
         picture;
}

std::string error_plot(const MergedCommunicator& c, const MergedRow& row) {
  const Distribution errors = row.errors();
  if (errors.count() == 0) return "";
  const std::string text =
      course_plot(row) + fmt::format(
                             "<h4>Relative error of a call against its native result: {} (median), "
                             "{} or less in 99 % of "
                             "the calls, {} at worst</h4>\n",
                             show_error(errors.median()), show_error(errors.percentile(99)),
                             show_error(errors.greatest()));
  const Spread medians = row.spread(value::median_error), worst = row.spread(value::worst_error);
  // Leaves the text if all ranks end with the same bytes.
  if (medians.min == medians.max && worst.min == worst.max) return text;
  if (row.ranks.size() > kMaxLines) return text + map_of(c, row, value::median_error);
  std::vector<Line> lines;
  for (const RankRow& r : row.ranks) {
    if (r.row.error.calls() == 0) continue;
    const double median = value::median_error(r.row), most = value::worst_error(r.row);
    lines.push_back({fmt::format("rank {}", r.rank),
                     {{most, "faint", show_error(most) + " worst"},
                      {median, "bar", show_error(median) + " median"}}});
  }
  return text + plot(lines, 13);
}

// ---- Tables ----

std::string cell(const Column& column, double x) { return std::isnan(x) ? "-" : column.show(x); }

std::string head(const char* first) {
  std::string text = fmt::format("<tr><th>{}</th>", first);
  for (const Column& column : kColumns) text += fmt::format("<th>{}</th>", column.title);
  return text + "</tr>\n";
}

std::string spread_line(const MergedRow& row, const char* name, double Spread::*member) {
  std::string text = fmt::format("<tr><td>{}</td>", name);
  for (const Column& column : kColumns) {
    const Spread s = row.spread(column.value);
    text += fmt::format("<td>{}</td>", s.count == 0 ? "-" : column.show(s.*member));
  }
  return text + "</tr>\n";
}

std::string rank_line(const MergedRow& row, const RankRow& r) {
  const Spread total = row.spread(value::total), talk = row.spread(value::communicate);
  std::string text = fmt::format("<tr><td>rank {}</td>", r.rank);
  for (const Column& column : kColumns) {
    const bool mark =
        (column.value == value::total && total.count > 1 && total.max_rank == r.rank) ||
        (column.value == value::communicate && talk.count > 1 && talk.min_rank == r.rank);
    text += fmt::format("<td{}>{}</td>", mark ? " class=\"mark\"" : "",
                        cell(column, column.value(r.row)));
  }
  return text + "</tr>\n";
}

// Those of a long row that a reader looks for: the slowest, and those that wait least.
std::vector<RankRow> notable(const MergedRow& row) {
  if (row.ranks.size() <= kMaxLines) return row.ranks;
  std::vector<const RankRow*> all, chosen;
  for (const RankRow& r : row.ranks) all.push_back(&r);
  const auto take = [&](double sign, double (*value)(const Row&)) {
    std::ranges::stable_sort(all, {}, [=](const RankRow* r) {
      const double x = value(r->row);
      return std::isnan(x) ? std::numeric_limits<double>::infinity() : sign * x;
    });
    chosen.insert(chosen.end(), all.begin(), all.begin() + kNotable);
  };
  take(-1, value::total);
  take(1, value::communicate);
  std::ranges::sort(chosen, {}, &RankRow::rank);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  std::vector<RankRow> some;
  for (const RankRow* r : chosen) some.push_back(*r);
  return some;
}

std::string numbers(const MergedRow& row) {
  const std::vector<RankRow> shown = notable(row);
  std::string text =
      fmt::format("<h4>{}</h4>\n", shown.size() == row.ranks.size()
                                       ? "Ranks"
                                       : "The slowest ranks, and those that wait least") +
      kTable + head("");
  text += spread_line(row, "min", &Spread::min) + spread_line(row, "median", &Spread::median) +
          spread_line(row, "max", &Spread::max);
  for (const RankRow& r : shown) text += rank_line(row, r);
  text += kTableEnd;
  if (const std::string words = show_race(row.race(), row.raced()); !words.empty())
    text += "<p class=\"soft\">* " + words + ".</p>\n";
  const Spread total = row.spread(value::total), talk = row.spread(value::communicate);
  if (total.count > 1)
    text += fmt::format(
        "<p class=\"soft\">Slowest: rank {}. The others wait for rank {}, which waits least.</p>\n",
        total.max_rank, talk.min_rank);
  for (const std::string& words :
       {show_error_scale(row.kind()), show_ratios(row), show_prediction(row)})
    if (!words.empty()) text += "<p class=\"soft\">" + words + ".</p>\n";
  uint64_t lost = 0, spread = 0;
  for (const RankRow& r : row.ranks) lost += r.row.error.lost, spread += r.row.error.spread;
  if (lost + spread != 0)
    text += fmt::format(
        "<p class=\"soft\">NaN or infinity: {} only natively, {} only compressed.</p>\n",
        counted(lost, "element"), spread);
  return text;
}

// Numbers of calls, a line each.
std::string table_of_calls(const std::map<std::string, uint64_t>& calls) {
  std::string rows;
  for (const auto& [what, number] : calls)
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape(what), number);
  return rows;
}

std::string section(const MergedCommunicator& c) {
  const std::string called = label(c.names);
  std::string text = fmt::format("<h2>Communicator {}<code>{:016x}</code></h2>\n",
                                 called.empty() ? "" : escape(called) + " ", c.id);
  std::string hosts;
  for (size_t i = 0; i < c.members.size(); ++i)
    if (std::find_if(c.members.begin(), c.members.begin() + i, [&](const Member& m) {
          return m.host == c.members[i].host;
        }) == c.members.begin() + i)
      hosts += (hosts.empty() ? "" : ", ") + escape(c.members[i].host);
  text += fmt::format("<p class=\"soft\">{} of {}, on {}{}</p>\n", c.members.size(),
                      counted(c.ranks, "rank"),
                      c.nodes > 1 ? fmt::format("{} nodes: ", c.nodes) : "", hosts);
  for (const MergedRow& row : c.rows)
    text +=
        fmt::format(
            "<div class=\"card\">\n<h3>{} <code>{}</code> <span class=\"soft\">{}{}</span></h3>\n",
            escape(row.kind().collective), escape(row.kind().scheme), show_rule(row.kind()),
            row.kind().message.empty() ? "" : ", " + escape(row.kind().message)) +
        bytes_plot(row) + times_plot(c, row) + error_plot(c, row) + numbers(row) + "</div>\n";
  if (!c.deltas.empty())
    text += "<div class=\"card\">\n<h3>AllGathers of differences</h3>\n" + kTable +
            table_of_calls(c.deltas) + kTableEnd + "</div>\n";
  if (c.bypasses.empty()) return text;
  text += "<div class=\"card\">\n<h3>Calls that went to NCCL as they were</h3>\n" + kTable +
          table_of_calls(c.bypasses);
  text += fmt::format("<tr><td>bytes that they sent</td><td>{}</td></tr>\n",
                      show_bytes(c.native.bytes));
  if (c.nodes > 1)
    text += fmt::format("<tr><td>of them between nodes</td><td>{}</td></tr>\n",
                        show_bytes(c.native.off_node));
  return text + kTableEnd + "</div>\n";
}

std::string sizes_plot(const Merged& merged) {
  std::vector<Line> lines;
  for (const SizeLine& line : size_lines(merged)) {
    static constexpr std::pair<const char*, const char*> kFates[] = {
        {"bar", "compressed"}, {"communicate", "skipped"}, {"faint", "native"}};
    Line bars{line.from, {}};
    for (size_t i = 0; i < line.fates.size(); ++i) {
      const double bytes = line.fates[i].bytes;
      if (line.fates[i].count != 0)
        bars.bars.push_back(
            {bytes, kFates[i].first, fmt::format("{} {}", show_bytes(bytes), kFates[i].second)});
    }
    lines.push_back(std::move(bars));
  }
  return plot(lines, 13);
}

std::string sizes_table(const Merged& merged) {
  std::string rows;
  for (const SizeLine& line : size_lines(merged)) {
    rows += fmt::format("<tr><td>{}</td>", line.from);
    for (const SizesSum::Class& c : line.fates)
      rows += c.count == 0 ? "<td>-</td><td>-</td>"
                           : fmt::format("<td>{}</td><td>{}</td>", c.count, show_bytes(c.bytes));
    rows += "</tr>\n";
  }
  if (rows.empty()) return "";
  return "<h2>Messages by size, all ranks</h2>\n<div class=\"card\">\n" + sizes_plot(merged) +
         kTable +
         "<tr><th></th><th>compressed</th><th>bytes</th><th>skipped</th><th>bytes</th>"
         "<th>native</th><th>bytes</th></tr>\n" +
         rows + kTableEnd +
         "<p class=\"soft\">Skipped: a rule is for the call, and something else speaks "
         "against it. Native: no rule is for it.</p>\n</div>\n";
}

std::string tiles(const Merged& merged) {
  Sum sum;
  size_t members = 0;
  for (const MergedCommunicator& c : merged.communicators) {
    members += c.members.size();
    for (const MergedRow& row : c.rows) sum.add(row.sum());
  }
  std::string text = "<div class=\"tiles\">\n";
  const auto tile = [&](const std::string& number, const char* what) {
    text += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", number, what);
  };
  tile(ratio(sum.ratio()), "fewer bytes in compressed calls");
  if (sum.leaves_node()) tile(ratio(sum.off_node_ratio()), "fewer between nodes");
  if (sum.race.calls != 0) tile(ratio(sum.race.speedup()), "as fast, where calls ran both ways");
  tile(show_bytes(sum.raw.bytes), "native, all ranks");
  tile(show_bytes(sum.wire.bytes), "on the wire");
  tile(count(sum.calls), "compressed calls, all ranks");
  tile(fmt::format("{}", members),
       merged.communicators.size() == 1 ? "ranks" : "ranks of all communicators");
  return text + "</div>\n";
}

std::string complaints(const Merged& merged) {
  if (merged.complaints.empty()) return "";
  std::string text = "<div class=\"warn\"><b>This report is not whole</b>\n<ul>\n";
  constexpr size_t kMaxComplaints = 100;
  const size_t shown = std::min(merged.complaints.size(), kMaxComplaints);
  for (size_t i = 0; i < shown; ++i)
    text += fmt::format("<li>{}</li>\n", escape(merged.complaints[i]));
  if (merged.complaints.size() > kMaxComplaints)
    text += fmt::format("<li>and {} more</li>\n", merged.complaints.size() - kMaxComplaints);
  return text + "</ul>\n</div>\n";
}

}  // namespace

std::string html(const Merged& merged) {
  std::string text =
      fmt::format("<p class=\"soft\">terse {}, {} report{}, policy: <code>{}</code></p>\n",
                  escape(merged.terse), merged.files.size(), merged.files.size() == 1 ? "" : "s",
                  escape(merged.policy));
  if (merged.observed)
    text += fmt::format("<p>observed, all ranks: {}</p>\n", escape(show_verdict(*merged.observed)));
  text += complaints(merged) + tiles(merged);
  for (const MergedCommunicator& c : merged.communicators) text += section(c);
  return page("terse report", text + sizes_table(merged));
}

}  // namespace terse::report
