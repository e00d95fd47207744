// `terse forecast`: predicted times of calls, or of a training step, on a machine with a profile,
// natively and compressed.
#include <algorithm>
#include <cmath>
#include <span>

#include "base/file.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/link_load.h"
#include "cli/option_checks.h"
#include "cli/step.h"
#include "cli/texts.h"
#include "engine/comm/chooser.h"
#include "engine/comm/fusing.h"
#include "engine/comm/savings.h"
#include "policy/datatype.h"
#include "policy/draft.h"
#include "policy/names.h"
#include "policy/presets.h"
#include "policy/profile_file.h"
#include "policy/size.h"
#include "report/chart.h"
#include "report/page.h"
#include "report/report.h"

namespace terse::cli {
namespace {

struct ForecastOptions {
  bool list = false;
  std::string profile = "a100-8x-100gbit", step, collective = "allreduce", dtype = "float32", plot;
  std::vector<std::string> ranks{"64"},
      bytes{"64K", "256K", "1M", "4M", "16M", "64M", "256M", "1G"};
  std::vector<std::string> schemes;  // none: the defaults
  int node_ranks = 0, pods = 1;
  bool simulate = false;
};

void list_profiles() {
  for (const KnownProfile& known : known_profiles())
    fmt::print("{:18} {}\n", known.name, read_profile(std::string(known.name)).source);
}

codec::Dtype dtype_of(const std::string& name) {
  codec::Dtype dtype{};
  if (!compressible(entry_of(dtype_names(), name).dtype, &dtype))
    refuse("{} is never compressed", name);
  return dtype;
}

int number_of_ranks(const std::string& text) {
  const auto number = parse_number(text);
  if (!number || *number < 2 || *number > kMaxRanks)
    refuse("--ranks {}: must be from 2 to {}", text, kMaxRanks);
  return static_cast<int>(*number);
}

// Machine and ranks of a call.
struct Place {
  const model::Profile& profile;
  int ranks;
  int node_ranks = 0, pods = 1;  // 0 ranks: the profile's
  bool in_steps = false;         // no call is fused
  plan::Topology topology = topology_of_full_nodes();

  Fusing fusing = {.window_bytes = max_window_bytes(settings(), profile.gpu)};

  Machines machines() const {
    return {chunk_policy_of(settings(), plan::default_chunk_policy(profile.gpu)), topology,
            in_steps ? nullptr : &fusing};
  }

 private:
  plan::Topology topology_of_full_nodes() const {
    const int of_node = node_ranks != 0 ? node_ranks : profile.node_ranks;
    if (pods == 1) return plan::full_topology(ranks, of_node);
    if (ranks % of_node != 0)
      refuse("--pods {}: {} are no whole nodes of {}", pods, counted(ranks, "rank"), of_node);
    return topology_of(ranks, ranks / of_node, pods);
  }
};

// Seconds of the call natively, and with the scheme; empty: native, as one that is predicted to be
// slower is, unless the scheme names its algorithm.
struct Times {
  double native;
  std::optional<double> compressed;
  std::optional<double> slower = {};  // seconds of such a one
};

// `option`: named in errors.
Prospect prospect_of(const std::string& option, plan::Collective collective, double bytes,
                     codec::Dtype dtype, int ranks) {
  const auto whole =
      static_cast<double>(codec::dtype_size(dtype) * plan::shards(collective, ranks));
  if (bytes < whole)
    refuse("{}: {} of {:g} bytes on {} has no elements", option, plan::name(collective), bytes,
           counted(ranks, "rank"));
  return {collective, static_cast<size_t>(bytes / whole), dtype, ranks, 0};
}

// Times as of a program's call. Throws Error if the scheme is not for so many ranks.
Times times_of(const Place& place, const Prospect& call, const Scheme& wanted) {
  const Prediction native = predict_native(place.profile, call, place.machines());
  if (wanted.off || !is_for(wanted, call.collective, call.dtype)) return {*native.seconds, {}};
  const Scheme scheme = require_on_ranks(wanted, call.ranks);  // may have other codes
  if (!is_for(scheme, call.collective, call.dtype)) return {*native.seconds, {}};
  require_feasible(call.collective,
                   shape_of({codec::Spec{}}, call.count, codec::dtype_size(call.dtype),
                            {call.ranks, 0, call.root}, place.machines()),
                   true);
  const auto own = predict_as_called(place.profile, scheme, call, place.machines());
  if (!own) return {*native.seconds, {}};
  const bool is_judged = !scheme.delta && !names_its_algorithm(scheme, call, place.machines()) &&
                         (place.profile.fused || !is_fused(scheme, call, place.machines()));
  const bool is_loss = is_judged && Saving{*native.seconds, *own->seconds}.is_loss();
  if (is_loss) return {*native.seconds, {}, own->seconds};
  return {*native.seconds, own->seconds};
}

struct Table {
  std::string title;
  std::vector<report::Series> series;  // native, and the schemes
  std::vector<report::Series> slower;  // of the schemes, what is native for it would be slower
  bool simulates = false, simulates_native = true;

  std::string heading() const {
    if (!simulates) return title;
    return title + (simulates_native ? ", simulated" : ", simulated but for native");
  }
};

std::string bytes_shown(double bytes) { return print_size(static_cast<uint64_t>(bytes)); }
std::string ranks_shown(double ranks) { return fmt::format("{:g}", ranks); }

// Seconds of a scheme at x; empty: native.
std::optional<double> seconds_at(const report::Series& scheme, double x) {
  const auto at = std::ranges::find(scheme.points, x, &std::pair<double, double>::first);
  if (at == scheme.points.end()) return {};
  return at->second;
}

std::string times_as_fast(double native, double seconds) {
  return fmt::format("{:.2f}x", native / seconds);
}

std::string native_cell(const Table& table, size_t scheme, double x, double native) {
  const std::optional<double> slower = seconds_at(table.slower[scheme], x);
  return slower ? fmt::format("native ({})", times_as_fast(native, *slower)) : "native";
}

void print_table(const Table& table, const report::Axis& axis) {
  fmt::print("\n{}\n\n{:>10}", table.heading(), axis.title);
  for (const report::Series& s : table.series) fmt::print("  {:>18}", s.name);
  fmt::print("\n");
  for (const auto& [x, native] : table.series.front().points) {
    fmt::print("{:>10}  {:>18}", axis.show(x), report::show_seconds(native));
    for (size_t k = 1; k < table.series.size(); ++k) {
      const std::optional<double> own = seconds_at(table.series[k], x);
      if (own)
        fmt::print("  {:>10} {:>7}", report::show_seconds(*own), times_as_fast(native, *own));
      else
        fmt::print("  {:>18}", native_cell(table, k - 1, x, native));
    }
    fmt::print("\n");
  }
}

void add_point(Table& table, double x, const Place& place, const Prospect& call,
               const std::vector<Scheme>& schemes) {
  for (size_t k = 0; k < schemes.size(); ++k) {
    const Times times = times_of(place, call, schemes[k]);
    if (k == 0) table.series[0].points.emplace_back(x, times.native);
    if (times.compressed) table.series[k + 1].points.emplace_back(x, *times.compressed);
    if (times.slower) table.slower[k].points.emplace_back(x, *times.slower);
  }
}

// Simulates what is predicted: what stays native for being slower stays so.
void add_simulated(Table& table, double x, const Place& place, const Prospect& call,
                   const std::vector<Scheme>& schemes) {
  const Machines machines = place.machines();
  const std::optional<double> native = simulate_native(place.profile, call, machines);
  table.simulates_native = table.simulates_native && native;
  table.series[0].points.emplace_back(
      x, native ? *native : *predict_native(place.profile, call, machines).seconds);
  for (size_t k = 0; k < schemes.size(); ++k) {
    const Times times = times_of(place, call, schemes[k]);
    if (!times.compressed && !times.slower) continue;
    const double seconds =
        simulate_as_called(place.profile, require_on_ranks(schemes[k], call.ranks), call, machines);
    (times.compressed ? table.series[k + 1] : table.slower[k]).points.emplace_back(x, seconds);
  }
}

// Default schemes: those that serve all of the numbers of ranks.
std::vector<std::string> default_schemes(const std::vector<std::string>& ranks) {
  std::vector<std::string> usual{"bf16", "int8", "int4", "linear8"};
  std::erase_if(usual, [&](const std::string& scheme) {
    return std::ranges::any_of(ranks, [&](const std::string& text) {
      return !on_ranks(parse_scheme(scheme), number_of_ranks(text));
    });
  });
  return usual;
}

std::vector<Scheme> schemes_of(const ForecastOptions& o) {
  std::vector<Scheme> schemes;
  for (const std::string& text : o.schemes) {
    schemes.push_back(parse_scheme(text));
    if (schemes.back().off || schemes.back().automatic)
      refuse("--schemes {}: names no format", text);
  }
  return schemes;
}

Table empty_table(const ForecastOptions& o, std::string title, bool simulates) {
  Table table{std::move(title), {{"native", {}}}, {}, simulates};
  for (const std::string& scheme : o.schemes) {
    table.series.push_back({scheme, {}});
    table.slower.push_back({scheme, {}});
  }
  return table;
}

// Times of a table as HTML: of each scheme, and how many times as fast as native.
std::string speedups(const Table& table, const report::Axis& axis) {
  std::string text = fmt::format("<div class=\"scroll\">\n<table>\n<tr><th>{}</th>", axis.title);
  for (const report::Series& s : table.series)
    text += fmt::format("<th>{}</th>", report::escape(s.name));
  text += "</tr>\n";
  for (const auto& [x, native] : table.series.front().points) {
    text += fmt::format("<tr><td>{}</td><td>{}</td>", axis.show(x), report::show_seconds(native));
    for (size_t k = 1; k < table.series.size(); ++k) {
      const std::optional<double> own = seconds_at(table.series[k], x);
      text += own ? fmt::format("<td>{}, {}</td>", report::show_seconds(*own),
                                times_as_fast(native, *own))
                  : fmt::format("<td>{}</td>", native_cell(table, k - 1, x, native));
    }
    text += "</tr>\n";
  }
  return text + "</table>\n</div>\n";
}

bool is_page(std::string_view path) { return path.ends_with(".html"); }

void write_plot(const std::string& path, const std::vector<Table>& tables,
                const report::Axis& axis) {
  const report::Axis time{"time", report::show_seconds};
  std::string text;
  for (const Table& table : tables) {
    const std::string chart = report::chart(table.heading(), axis, time, table.series);
    text += is_page(path) ? fmt::format("<div class=\"card white\">\n{}{}</div>\n", chart,
                                        speedups(table, axis))
                          : chart;
  }
  if (is_page(path))
    text = report::page(
        "terse forecast",
        "<p class=\"soft\">Predicted by a model of the machine, not measured.</p>\n" + text);
  write_file(path, text);
  fmt::print("\nplot: {}\n", path);
}

void print_profile(const model::Profile& profile, bool in_steps = false) {
  fmt::print("profile    {}: {}\n", profile.name, profile.source);
  if (!profile.measured.empty())
    fmt::print("measured   is what auto goes by; these times are the model's\n");
  if (in_steps)
    fmt::print("simulated  all ranks and their links, in steps, beside what the model predicts\n");
  else if (profile.fused && max_window_bytes(settings(), profile.gpu) != 0)
    fmt::print("fused      calls of up to {} ranks on one node{} (TERSE_FUSE=off: in steps)\n",
               plan::Fused::kMaxRanks, profile.fused->estimate ? ", an estimate" : "");
}

// Prints a table by sizes for each number of ranks; or, for one size, a table by ranks.
void forecast_calls(ForecastOptions o) {
  if (o.schemes.empty()) o.schemes = default_schemes(o.ranks);
  const model::Profile profile = at("--profile", [&] { return read_profile(o.profile); });
  const plan::Collective collective = entry_of(collective_names(), o.collective).collective;
  if (plan::is_point_to_point(collective))
    refuse("--collective {}: is between two ranks", o.collective);
  const codec::Dtype dtype = dtype_of(o.dtype);
  const std::vector<Scheme> schemes = schemes_of(o);
  const bool by_ranks = o.bytes.size() == 1 && o.ranks.size() > 1;
  const report::Axis axis =
      by_ranks ? report::Axis{"ranks", ranks_shown} : report::Axis{"bytes", bytes_shown};
  std::vector<Table> tables;
  const auto add_tables = [&](const std::string& title) {
    tables.push_back(empty_table(o, title, false));
    if (o.simulate) tables.push_back(empty_table(o, title, true));
  };
  if (by_ranks)
    add_tables(fmt::format("{} of {}, {}, by {}", o.collective, o.bytes[0], o.dtype, profile.name));
  for (const std::string& text : o.ranks) {
    const int ranks = number_of_ranks(text);
    const Place place{profile, ranks, o.node_ranks, o.pods, o.simulate};
    if (const char* what = model::lacks(profile, place.topology))
      refuse("--ranks {}: the profile \"{}\" says nothing of {}", ranks, profile.name, what);
    if (!by_ranks)
      add_tables(fmt::format("{}, {}, {} on {}, by {}", o.collective, o.dtype,
                             counted(ranks, "rank"), counted(place.topology.nodes(), "node"),
                             profile.name));
    for (const std::string& size : o.bytes) {
      const auto bytes = parse_size(size);
      if (!bytes || *bytes > kMaxBytes)
        refuse("--bytes {}: not a number of bytes such as 64M", size);
      const double x = by_ranks ? ranks : static_cast<double>(*bytes);
      const Prospect call =
          prospect_of("--bytes " + size, collective, static_cast<double>(*bytes), dtype, ranks);
      if (o.simulate) add_simulated(tables.back(), x, place, call, schemes);
      add_point(tables[tables.size() - (o.simulate ? 2 : 1)], x, place, call, schemes);
    }
  }
  if (tables.size() > 1 && !o.plot.empty() && !is_page(o.plot))
    refuse("--plot {}: several charts go into a page, .html", o.plot);
  print_profile(profile, o.simulate);
  for (const Table& table : tables) print_table(table, axis);
  if (!o.plot.empty()) write_plot(o.plot, tables, axis);
}

void forecast_step(const ForecastOptions& o, bool names_profile) {
  const TrainingStep step = at("--step", [&] { return read_step(o.step); });
  const std::string& name = names_profile || step.profile.empty() ? o.profile : step.profile;
  model::Profile profile = at("--profile", [&] { return read_profile(name); });
  for (std::optional<model::Link>* const link : {&profile.between, &profile.pods})
    if (*link) (*link)->bandwidth /= step.sharing;
  const Place place{profile, step.ranks, step.node_ranks, step.pods};
  if (const char* what = model::lacks(profile, place.topology))
    refuse("--step {}: the profile \"{}\" says nothing of {}", o.step, profile.name, what);
  std::vector<Times> of_calls;
  for (const StepCall& call : step.calls)
    of_calls.push_back(times_of(
        place, prospect_of("--step " + o.step, call.collective, call.bytes, call.dtype, step.ranks),
        call.scheme));
  fmt::print("step       {}\n", step.name);
  print_profile(profile);
  fmt::print("\n{:14} {:>10}  {:34} {:>10} {:>10} {:>7}\n", "collective", "bytes", "scheme",
             "native", "compressed", "");
  double native = step.compute, compressed = step.compute;
  for (size_t i = 0; i < of_calls.size(); ++i) {
    const StepCall& call = step.calls[i];
    const Times& times = of_calls[i];
    const double own = times.compressed.value_or(times.native);
    const auto exposed = [&](double t) { return call.times * std::max(0.0, t - call.beside); };
    native += exposed(times.native);
    compressed += exposed(own);
    fmt::print("{:14} {:>10}  {:34} {:>10} {:>10} {:>7}\n", plan::name(call.collective),
               fmt::format("{:.4g}", call.bytes), print_scheme(call.scheme),
               report::show_seconds(times.native), report::show_seconds(own),
               fmt::format("{:.2f}x", times.native / own));
  }
  fmt::print("\ncompute    {}\nstep       {} native, {} compressed{}\n",
             report::show_seconds(step.compute), report::show_seconds(native),
             report::show_seconds(compressed),
             compressed == 0 ? "" : fmt::format(": {:.2f}x", native / compressed));
}

}  // namespace

void add_forecast(CLI::App& app) {
  const auto o = std::make_shared<ForecastOptions>();
  CLI::App* c = app.add_subcommand(
      "forecast", "Predict calls, or a training step, on a machine that a profile describes");
  CLI::Option* list = c->add_flag("--list", o->list, "List the profiles that come along");
  CLI::Option* profile =
      c->add_option("--profile", o->profile,
                    "A built-in profile (--list), or a file: take your machine's")
          ->capture_default_str();
  CLI::Option* step =
      c->add_option("--step", o->step, "A training step in TOML: its calls and its computing")
          ->check(not_empty);
  CLI::Option* const of_calls[] = {
      c->add_option("--collective", o->collective, "The call's")->capture_default_str(),
      c->add_option("--dtype", o->dtype, "Of its elements: 16 bits gain half as much")
          ->capture_default_str(),
      c->add_option("--ranks", o->ranks, "How many, a list (64)")->delimiter(','),
      c->add_option("--node-ranks", o->node_ranks, "Of a node (default: the profile's)")
          ->check(CLI::Range(1, kMaxRanks)),
      c->add_option("--pods", o->pods, "That the nodes are in (TERSE_POD)")
          ->check(CLI::Range(1, kMaxRanks))
          ->capture_default_str(),
      c->add_option("--bytes", o->bytes, "Of the whole message, a list (64K to 1G)")
          ->delimiter(','),
      c->add_option_function<std::string>(
          "--schemes", [o](const std::string& text) { o->schemes = split_schemes(text); },
          "To compare with native (bf16,int8,int4,linear8)"),
      c->add_flag("--simulate", o->simulate,
                  "Also simulate all ranks, with the links between them"),
      c->add_option("--plot", o->plot, "Draw it here, as SVG, or as a page where it ends in .html")
          ->check(not_empty)};
  for (CLI::Option* const other : of_calls) {
    step->excludes(other);
    list->excludes(other);
  }
  list->excludes(step)->excludes(profile);
  c->callback([o, profile] {
    if (o->list) return list_profiles();
    require_valid(settings());
    if (!o->step.empty()) return forecast_step(*o, profile->count() != 0);
    forecast_calls(*o);
  });
}

}  // namespace terse::cli
