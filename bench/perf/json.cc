#include "json.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>

namespace terse::perf {
namespace {

// Collects members of an object or items of a list; the values are JSON already.
class Builder {
 public:
  Builder& add(const std::string& key, const std::string& json) {
    return append(text_.empty() ? "" : ",").append(quote_json(key)).append(":").append(json);
  }
  Builder& add(const std::string& json) {
    return append(text_.empty() ? "" : ",\n  ").append(json);
  }
  std::string object() const { return "{" + text_ + "}"; }
  std::string list() const { return "[" + text_ + "]"; }

 private:
  Builder& append(const std::string& text) {
    text_ += text;
    return *this;
  }

  std::string text_;
};

// JSON has no infinities and no NaN.
std::string number(double value) {
  if (std::isfinite(value)) return fmt::format("{:.9g}", value);
  return std::isnan(value) ? "\"nan\"" : "\"inf\"";
}

std::string number(const std::optional<double>& value) {
  return value.has_value() ? number(*value) : "null";
}

// A string, as nccl-tests writes it.
std::string truth(bool value) { return value ? "\"true\"" : "\"false\""; }

template <typename T>
std::string list(const std::vector<T>& values, const std::function<std::string(const T&)>& each) {
  Builder list;
  for (const T& value : values) list.add(each(value));
  return list.list();
}

std::string strings(const std::vector<std::string>& values) {
  return list<std::string>(values, [](const std::string& text) { return quote_json(text); });
}

std::string measurement_json(const Options& o, const Measurement& m) {
  Builder object;
  object.add(o.report_cpu_time != 0 ? "cpu_time" : "time", number(m.time));
  object.add("alg_bw", number(m.algbw)).add("bus_bw", number(m.busbw));
  object.add("nwrong", number(m.wrong));
  object.add("wire_ratio", number(m.wire_ratio));
  object.add("wire_bytes_per_call", number(m.wire_bytes));
  object.add("relative_l2_error", number(m.error));
  object.add("off_node_ratio", number(m.off_node_ratio));
  object.add("off_node_bytes_per_call", number(m.off_node_bytes));
  object.add("netdev_bytes_per_call", number(m.netdev_bytes));
  object.add("checksums", list<std::uint64_t>(m.checksums, [](const std::uint64_t& sum) {
               return fmt::format("\"{:016x}\"", sum);
             }));
  return object.object();
}

std::string iterations_json(const Options& o, const Measurement& m) {
  const IterationStats& s = *m.stats;
  Builder object;
  object.add("skipped_iterations", std::to_string(o.per_iteration_skip));
  object.add("min_us", number(s.min)).add("max_us", number(s.max)).add("avg_us", number(s.mean));
  object.add("p50_us", number(s.p50)).add("p95_us", number(s.p95)).add("p99_us", number(s.p99));
  object.add("stdev_us", number(s.deviation)).add("cv_pct", number(s.variation_percent()));
  const auto times = [](const std::vector<double>& row) {
    return list<double>(row, [](const double& time) { return number(time); });
  };
  object.add("times_us", times(m.iterations));
  if (m.process_iterations.size() > 1) {
    object.add("per_process_max_times_us", list<std::vector<double>>(m.process_iterations, times));
  }
  return object.object();
}

std::string row_json(const Options& o, const Row& row) {
  Builder object;
  object.add("size", std::to_string(row.size)).add("count", std::to_string(row.count));
  object.add("type", quote_json(row.type)).add("redop", quote_json(row.op));
  object.add("root", quote_json(fmt::format("{:6}", row.root)));
  const auto add = [&](const std::string& place, const Measurement& m) {
    if (!m.left_out) object.add(place, measurement_json(o, m));
    if (m.stats) object.add(place + "_per_iter", iterations_json(o, m));
  };
  add("out_of_place", row.out_of_place);
  add("in_place", row.in_place);
  object.add("actual_iterations", std::to_string(o.iterations)).add("experiment_name", "\"\"");
  return object.object();
}

std::string rank_json(const RankInfo& rank) {
  Builder object;
  object.add("rank", std::to_string(rank.rank)).add("group", std::to_string(rank.group));
  object.add("pid", std::to_string(rank.process_id)).add("hostname", quote_json(rank.host));
  object.add("device", std::to_string(rank.device));
  object.add("device_hex", quote_json(rank.info.bus_id));
  return object.add("device_info", quote_json(rank.info.name)).object();
}

std::string config_json(const Options& o, const JsonReport& report) {
  const auto number = [](auto value) { return std::to_string(value); };
  Builder object;
  object.add("nthreads", number(o.threads)).add("ngpus", number(o.ranks_per_thread));
  object.add("minimum_bytes", number(o.min_bytes)).add("maximum_bytes", number(o.max_bytes));
  if (o.step_factor > 1) {
    object.add("step_factor", number(o.step_factor));
  } else {
    object.add("step_bytes", number(o.step_bytes));
  }
  object.add("warmup_iters", number(o.warmup)).add("iterations", number(o.iterations));
  object.add("aggregated_iterations", number(o.aggregate)).add("validation", number(o.check));
  object.add("graph", number(o.graph)).add("blocking_collectives", truth(o.blocking != 0));
  object.add("per_iter_timing", truth(o.per_iteration != 0));
  object.add("per_iter_skip", number(o.per_iteration_skip));
  object.add("parallel_init", truth(o.parallel_init != 0));
  object.add("scheme", o.scheme.empty() ? "null" : quote_json(o.scheme));
  object.add("input", o.input.empty() ? "null" : quote_json(o.input));
  object.add("seed", number(o.seed)).add("nodes", number(report.layout.nodes));
  return object.add("devices", list<RankInfo>(report.ranks, rank_json)).object();
}

}  // namespace

std::string quote_json(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string make_json(const Options& o, const JsonReport& report) {
  Builder object;
  object.add("version", "3").add("start_time", quote_json(report.start_time));
  object.add("args", strings(o.command_line)).add("env", strings(report.environment));
  object.add("nccl_version", std::to_string(report.nccl_version));
  object.add("config", config_json(o, report));
  object.add("results", list<Row>(report.rows, [&](const Row& row) { return row_json(o, row); }));
  Builder bounds;
  bounds.add("count", std::to_string(report.summary.failures));
  bounds.add("okay", truth(report.summary.failures == 0));
  object.add("out_of_bounds", bounds.object());
  Builder bandwidth;
  bandwidth.add("bandwidth", number(report.summary.mean_busbw))
      .add("okay",
           report.summary.min_busbw ? truth(!report.summary.is_too_slow()) : "\"unchecked\"");
  object.add("average_bus_bandwidth", bandwidth.object());
  object.add("errors", "[]");
  return object.add("end_time", quote_json(report.end_time)).object() + "\n";
}

std::string write_new_file(const std::string& path, const std::string& text) {
  std::string name = path;
  std::FILE* file = std::fopen(name.c_str(), "wx");
  for (int number = 0; file == nullptr && errno == EEXIST; ++number) {
    name = path + "." + std::to_string(number);
    file = std::fopen(name.c_str(), "wx");
  }
  if (file == nullptr) throw std::runtime_error(name + ": " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) throw std::runtime_error(name + ": write failed");
  return name;
}

}  // namespace terse::perf
