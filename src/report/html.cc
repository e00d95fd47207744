// The page of `terse report --html`: tables and plots.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/merge.h"
#include "report/page.h"

namespace terse::report {
namespace {

std::string count(double x) { return fmt::format("{:.0f}", x); }
std::string ratio(double x) { return fmt::format("{:.2f}x", x); }

struct Column {
  const char* title;
  double (*value)(const Row&);
  std::string (*show)(double);
};

constexpr Column kColumns[] = {
    {"calls", value::calls, count},
    {"raw", value::raw, show_bytes},
    {"wire", value::wire, show_bytes},
    {"ratio", value::ratio, ratio},
    {"off node", value::wire_off_node, show_bytes},
    {"ratio", value::off_node_ratio, ratio},
    {"a call", value::total, show_seconds},
    {"encode", value::encode, show_seconds},
    {"communicate", value::communicate, show_seconds},
    {"decode", value::decode, show_seconds},
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

std::string times_plot(const MergedRow& row) {
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
    lines.push_back(std::move(line));
  }
  return "<h4>Time of a call; its phases overlap</h4>\n"
         "<p class=\"key\"><i style=\"background: var(--faint)\"></i>the call"
         "<i style=\"background: var(--encode)\"></i>encode"
         "<i style=\"background: var(--communicate)\"></i>communicate, and wait for others"
         "<i style=\"background: var(--decode)\"></i>decode and reduce</p>\n" +
         plot(lines, 13);
}

std::string error_plot(const MergedRow& row) {
  const Distribution errors = row.errors();
  if (errors.count() == 0) return "";
  const std::string text = fmt::format(
      "<h4>Relative error of a call against its native result: {} (median), {} or less in 99 % of "
      "the calls, {} at worst</h4>\n",
      show_error(errors.median()), show_error(errors.percentile(99)),
      show_error(errors.greatest()));
  const Spread medians = row.spread(value::median_error), worst = row.spread(value::worst_error);
  // As it is where all ranks end with the same bytes.
  if (medians.min == medians.max && worst.min == worst.max) return text;
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

std::string numbers(const MergedRow& row) {
  std::string text = "<h4>Ranks</h4>\n<table>\n" + head("");
  text += spread_line(row, "min", &Spread::min) + spread_line(row, "median", &Spread::median) +
          spread_line(row, "max", &Spread::max);
  for (const RankRow& r : row.ranks) text += rank_line(row, r);
  text += "</table>\n";
  const Spread total = row.spread(value::total), talk = row.spread(value::communicate);
  if (total.count > 1)
    text += fmt::format(
        "<p class=\"soft\">Slowest: rank {}. The others wait for rank {}, which waits least.</p>\n",
        total.max_rank, talk.min_rank);
  if (const std::string words = show_prediction(row); !words.empty())
    text += "<p class=\"soft\">" + words + ".</p>\n";
  uint64_t lost = 0, spread = 0;
  for (const RankRow& r : row.ranks) lost += r.row.error.lost, spread += r.row.error.spread;
  if (lost + spread != 0)
    text += fmt::format(
        "<p class=\"soft\">NaN or infinity: {} elements only natively, {} only compressed.</p>\n",
        lost, spread);
  return text;
}

// Numbers of calls, a line each.
std::string counted(const std::map<std::string, uint64_t>& calls) {
  std::string rows;
  for (const auto& [what, number] : calls)
    rows += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape(what), number);
  return rows;
}

std::string section(const MergedCommunicator& c) {
  std::string text = fmt::format("<h2>Communicator {}<code>{:016x}</code></h2>\n",
                                 c.name.empty() ? "" : escape(c.name) + " ", c.id);
  std::string hosts;
  for (size_t i = 0; i < c.members.size(); ++i)
    if (std::find_if(c.members.begin(), c.members.begin() + i, [&](const Member& m) {
          return m.host == c.members[i].host;
        }) == c.members.begin() + i)
      hosts += (hosts.empty() ? "" : ", ") + escape(c.members[i].host);
  text += fmt::format("<p class=\"soft\">{} of {} ranks, on {}{}</p>\n", c.members.size(), c.ranks,
                      c.nodes > 1 ? fmt::format("{} nodes: ", c.nodes) : "", hosts);
  for (const MergedRow& row : c.rows)
    text +=
        fmt::format(
            "<div class=\"card\">\n<h3>{} <code>{}</code> <span class=\"soft\">{}</span></h3>\n",
            row.kind().collective, escape(row.kind().scheme), show_rule(row.kind())) +
        bytes_plot(row) + times_plot(row) + error_plot(row) + numbers(row) + "</div>\n";
  if (!c.deltas.empty())
    text += "<div class=\"card\">\n<h3>AllGathers of differences</h3>\n<table>\n" +
            counted(c.deltas) + "</table>\n</div>\n";
  if (c.bypasses.empty()) return text;
  text += "<div class=\"card\">\n<h3>Calls that went to NCCL as they were</h3>\n<table>\n" +
          counted(c.bypasses);
  return text + fmt::format("<tr><td>bytes that they sent</td><td>{}</td></tr>\n</table>\n</div>\n",
                            show_bytes(static_cast<double>(c.native.bytes)));
}

std::string tiles(const Merged& merged) {
  Row sum;
  size_t members = 0;
  for (const MergedCommunicator& c : merged.communicators) {
    members += c.members.size();
    for (const MergedRow& row : c.rows)
      for (const RankRow& r : row.ranks) {
        sum.calls += r.row.calls;
        sum.raw += r.row.raw;
        sum.wire += r.row.wire;
      }
  }
  std::string text = "<div class=\"tiles\">\n";
  const auto tile = [&](const std::string& number, const char* what) {
    text += fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", number, what);
  };
  tile(sum.wire.bytes != 0 ? ratio(sum.ratio()) : "-", "fewer bytes in compressed calls");
  if (sum.leaves_node()) tile(ratio(sum.off_node_ratio()), "fewer between nodes");
  tile(show_bytes(value::raw(sum)), "native, all ranks");
  tile(show_bytes(value::wire(sum)), "on the wire");
  tile(count(value::calls(sum)), "compressed calls, all ranks");
  tile(fmt::format("{}", members),
       merged.communicators.size() == 1 ? "ranks" : "ranks of all communicators");
  return text + "</div>\n";
}

std::string complaints(const Merged& merged) {
  if (merged.complaints.empty()) return "";
  std::string text = "<div class=\"warn\"><b>This report is not whole</b>\n<ul>\n";
  for (const std::string& line : merged.complaints)
    text += fmt::format("<li>{}</li>\n", escape(line));
  return text + "</ul>\n</div>\n";
}

}  // namespace

std::string html(const Merged& merged) {
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>terse report</title>\n"
      "<style>{}</style>\n</head>\n<body>\n<main>\n<h1>terse report</h1>\n"
      "<p class=\"soft\">terse {}, {} report{}, policy: <code>{}</code></p>\n",
      kStyle, escape(merged.terse), merged.files.size(), merged.files.size() == 1 ? "" : "s",
      escape(merged.policy));
  text += complaints(merged) + tiles(merged);
  for (const MergedCommunicator& c : merged.communicators) text += section(c);
  return text + "</main>\n</body>\n</html>\n";
}

}  // namespace terse::report
