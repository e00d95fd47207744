#include "table.h"

#include <fmt/format.h>
#include <nccl.h>
#include <terse/terse.h>

#include <functional>

#include "memory.h"

namespace terse::perf {
namespace {

// A group of two columns of ours, out of place and in place.
struct ExtraColumns {
  const char* title;
  const char* unit;
  int width;
  bool (*shown)(const Options&, const Layout&);
  std::string (*print)(const Measurement&);
};

std::string or_not_available(const std::optional<double>& value, const char* format) {
  return value.has_value() ? fmt::format(fmt::runtime(format), *value) : "N/A";
}

const ExtraColumns kExtraColumns[] = {
    {"wire ratio", "(x)", 7, [](const Options& o, const Layout&) { return o.shows_ratio(); },
     [](const Measurement& m) { return or_not_available(m.wire_ratio, "{:.2f}"); }},
    {"off-node ratio", "(x)", 7,
     [](const Options& o, const Layout& l) { return o.shows_ratio() && l.shares_links(); },
     [](const Measurement& m) { return or_not_available(m.off_node_ratio, "{:.2f}"); }},
    {"relative L2 error", "", 9, [](const Options& o, const Layout&) { return o.shows_error(); },
     [](const Measurement& m) { return or_not_available(m.error, "{:.2e}"); }},
    {"interface bytes a call", "(B)", 12,
     [](const Options& o, const Layout&) { return !o.netdev.empty(); },
     [](const Measurement& m) { return or_not_available(m.netdev_bytes, "{:.0f}"); }},
};

// One line's cells of our columns: each(group, in_place) gives a cell's text.
std::string extra_cells(const Options& options, const Layout& layout,
                        const std::function<std::string(const ExtraColumns&, bool)>& each) {
  std::string line;
  for (const ExtraColumns& group : kExtraColumns) {
    if (!group.shown(options, layout)) continue;
    for (const bool in_place : {false, true}) {
      line += fmt::format("  {:>{}}", each(group, in_place), group.width);
    }
  }
  return line;
}

std::string extra_titles(const Options& options, const Layout& layout) {
  std::string line;
  for (const ExtraColumns& group : kExtraColumns) {
    if (!group.shown(options, layout)) continue;
    line += fmt::format("  {:^{}}", group.title, 2 * group.width + 2);
  }
  return line;
}

const char* blocking_note(int blocking) {
  switch (blocking) {
    case 1:
      return "# Blocking Enabled: wait and barrier after each inner iteration (-m) \n";
    case 2:
      return "# Blocking Enabled: wait after each inner iteration (-m), no barrier \n";
    case 3:
      return "# Blocking Enabled: wait and barrier after each outer iteration (-n); "
             "time excludes barrier \n";
    default:
      return "";
  }
}

struct HeaderCells {
  const char* first[5];
  const char* time;
  const char* rate[2];
  const char* wrong;
  const char* iteration[4];
};

// One place's cells, out of place or in place.
std::string place_cells(const Options& options, const HeaderCells& cells) {
  std::string line = fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", cells.time, cells.rate[0],
                                 cells.rate[1], cells.wrong);
  if (options.per_iteration != 0)
    for (const char* cell : cells.iteration) line += fmt::format("  {:>7}", cell);
  return line;
}

std::string header_line(const Options& options, const HeaderCells& cells) {
  std::string line = fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", cells.first[0],
                                 cells.first[1], cells.first[2], cells.first[3], cells.first[4]);
  return line + place_cells(options, cells) + place_cells(options, cells);
}

}  // namespace

std::string fit_number(double value, int width) {
  for (int decimals = 2; decimals >= 0; --decimals) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (text.size() <= static_cast<std::size_t>(width)) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string table_run_header(const std::string& program, const Options& o, int nccl_version) {
  std::string text = fmt::format("# terse perf version {}.{}.{} nccl-headers={} nccl-library={}\n",
                                 TERSE_VERSION_MAJOR, TERSE_VERSION_MINOR, TERSE_VERSION_PATCH,
                                 NCCL_VERSION_CODE, nccl_version);
  text += fmt::format("# Collective test starting: {}\n", program);
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg "
      "iters: {} validation: {} graph: {} unalign: {}\n",
      o.threads, o.ranks_per_thread, o.min_bytes, o.max_bytes,
      o.step_factor > 1 ? static_cast<std::size_t>(o.step_factor) : o.step_bytes,
      o.step_factor > 1 ? "factor" : "bytes", o.warmup, o.iterations, o.aggregate, o.check, o.graph,
      o.unalign);
  text += blocking_note(o.blocking);
  if (o.per_iteration != 0) {
    text += "# Per-Iteration Report: CUDA event timing; i_* uses max over process rows";
    if (o.per_iteration_skip != 0) {
      text += fmt::format("; summary skips first {} iterations", o.per_iteration_skip);
    }
    text += " \n";
  }
  if (o.parallel_init != 0) {
    text += "# Parallel Init Enabled: threads call into NcclInitRank concurrently \n";
  }
  if (!o.scheme.empty()) text += fmt::format("# Scheme: {}\n", o.scheme);
  if (!o.input.empty()) text += fmt::format("# Input: {}\n", o.input);
  return text + "#\n";
}

std::string table_ranks(const std::vector<RankInfo>& ranks, const Layout& layout) {
  std::string text = "# Using devices\n";
  for (const RankInfo& r : ranks) {
    text += fmt::format("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n", r.rank,
                        r.group, r.process_id, r.host, r.device, r.info.bus_id, r.info.name);
  }
  if (layout.nodes > 1) text += fmt::format("# Nodes: {}\n", layout.nodes);
  return text;
}

std::string table_header(const Options& o, const Layout& layout) {
  const char* time = o.report_cpu_time != 0 ? "cputime" : "time";
  const bool stamped = o.report_timestamps != 0;
  const int pad = stamped ? 19 : 0;
  const std::string blank =
      fmt::format("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "", "", "", "", "");
  std::string text = "#\n";
  text +=
      blank + (o.per_iteration != 0
                   ? "              out-of-place (+ per-iteration)                                "
                     "in-place (+ per-iteration)"
                   : "           out-of-place                       in-place          ");
  text += (stamped ? fmt::format("{:21}", "") : "") + extra_titles(o, layout) + "\n";
  const auto own = [](const ExtraColumns&, bool in_place) {
    return std::string(in_place ? "in" : "out");
  };
  text += header_line(o, {{"size", "count", "type", "redop", "root"},
                          time,
                          {"algbw", "busbw"},
                          "#wrong",
                          {"i_min", "i_max", "i_p99", "i_cv%"}});
  text +=
      fmt::format(" {:>{}}", stamped ? "timestamp" : "", pad) + extra_cells(o, layout, own) + "\n";
  text += header_line(o, {{"(B)", "(elements)", "", "", ""},
                          "(us)",
                          {"(GB/s)", "(GB/s)"},
                          "",
                          {"(us)", "(us)", "(us)", "(%)"}});
  const auto unit = [](const ExtraColumns& group, bool) { return std::string(group.unit); };
  return text + fmt::format(" {:>{}}", stamped ? "%Y-%m-%d %H:%M:%S" : "", pad) +
         extra_cells(o, layout, unit) + "\n";
}

std::string table_row_start(const Row& row) {
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:>6}", row.size, row.count, row.type, row.op,
                     row.root);
}

std::string table_measurement(const Options& o, const Measurement& m) {
  constexpr const char* kNone = "N/A";
  if (m.left_out)
    return place_cells(o, {{}, kNone, {kNone, kNone}, kNone, {kNone, kNone, kNone, kNone}});
  std::string text = fmt::format("  {}  {}  {}", fit_number(m.time, 7), fit_number(m.algbw, 6),
                                 fit_number(m.busbw, 6));
  text += m.wrong.has_value() ? fmt::format("  {:6g}", *m.wrong) : "     N/A";
  if (o.per_iteration != 0 && m.stats.has_value()) {
    const IterationStats& s = *m.stats;
    for (const double value : {s.min, s.max, s.p99, s.variation_percent()}) {
      text += "  " + fit_number(value, 7);
    }
  }
  return text;
}

std::string table_row_end(const Options& o, const Layout& layout, const Row& row,
                          const std::string& time_of_day) {
  const std::string stamp = o.report_timestamps != 0 ? fmt::format("{:>21}", time_of_day) : "";
  // The header's lines have one more character before the timestamp.
  const std::string cells = extra_cells(o, layout, [&](const ExtraColumns& group, bool in_place) {
    return group.print(in_place ? row.in_place : row.out_of_place);
  });
  return stamp + (cells.empty() || !stamp.empty() ? "" : " ") + cells + "\n";
}

std::string table_checksums(const Row& row) {
  std::string text;
  for (const bool in_place : {false, true}) {
    const Measurement& m = in_place ? row.in_place : row.out_of_place;
    for (std::size_t rank = 0; rank < m.checksums.size(); ++rank) {
      text +=
          fmt::format("# checksum size {} type {} op {} {} rank {} {:016x}\n", row.size, row.type,
                      row.op, in_place ? "in-place" : "out-of-place", rank, m.checksums[rank]);
    }
  }
  return text;
}

std::string table_footer(const std::string& program, const std::string& memory,
                         const Summary& summary) {
  std::string text = fmt::format("# {:<20} : {} {}\n", "Out of bounds values", summary.failures,
                                 summary.failures != 0 ? "FAILED" : "OK");
  const char* const verdict = !summary.min_busbw ? "" : summary.is_too_slow() ? "FAILED" : "OK";
  text += fmt::format("# {:<20} : {:g} {}\n", "Avg bus bandwidth", summary.mean_busbw, verdict);
  text += fmt::format("#\n# Collective test concluded: {}\n", program);
  if (summary.memory) {
    const auto& [communicators, buffers, calls] = *summary.memory;
    text += fmt::format(
        "# {:<20} : Initialization {} | User-Allocated {} | Collective {} | Total  {}\n",
        memory + " memory usage", print_bytes(communicators), print_bytes(buffers),
        print_bytes(calls), print_bytes(communicators + buffers + calls));
  }
  return text + "#\n\n";
}

}  // namespace terse::perf
