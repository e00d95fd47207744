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
  Builder& Add(const char* key, const std::string& json) {
    return Append(text_.empty() ? "" : ",").Append(QuoteJson(key)).Append(":").Append(json);
  }
  Builder& Add(const std::string& json) {
    return Append(text_.empty() ? "" : ",\n  ").Append(json);
  }
  std::string Object() const { return "{" + text_ + "}"; }
  std::string List() const { return "[" + text_ + "]"; }

 private:
  Builder& Append(const std::string& text) {
    text_ += text;
    return *this;
  }

  std::string text_;
};

// JSON has no infinities and no NaN.
std::string Number(double value) {
  if (std::isfinite(value)) return fmt::format("{:.9g}", value);
  return std::isnan(value) ? "\"nan\"" : "\"inf\"";
}

std::string Number(const std::optional<double>& value) {
  return value.has_value() ? Number(*value) : "null";
}

template <typename T>
std::string List(const std::vector<T>& values, const std::function<std::string(const T&)>& each) {
  Builder list;
  for (const T& value : values) list.Add(each(value));
  return list.List();
}

std::string Strings(const std::vector<std::string>& values) {
  return List<std::string>(values, [](const std::string& text) { return QuoteJson(text); });
}

std::string MeasurementJson(const Options& o, const Measurement& m) {
  Builder object;
  object.Add(o.report_cpu_time != 0 ? "cpu_time" : "time", Number(m.time));
  object.Add("alg_bw", Number(m.algbw)).Add("bus_bw", Number(m.busbw));
  object.Add("nwrong", Number(m.wrong));
  object.Add("wire_ratio", Number(m.wire_ratio));
  object.Add("wire_bytes_per_call", Number(m.wire_bytes));
  object.Add("relative_l2_error", Number(m.error));
  object.Add("netdev_bytes_per_call", Number(m.netdev_bytes));
  object.Add("checksums", List<std::uint64_t>(m.checksums, [](const std::uint64_t& sum) {
               return fmt::format("\"{:016x}\"", sum);
             }));
  return object.Object();
}

std::string IterationsJson(const Options& o, const Measurement& m) {
  const IterationStats& s = *m.stats;
  Builder object;
  object.Add("skipped_iterations", std::to_string(o.per_iteration_skip));
  object.Add("min_us", Number(s.min)).Add("max_us", Number(s.max)).Add("avg_us", Number(s.mean));
  object.Add("p50_us", Number(s.p50)).Add("p95_us", Number(s.p95)).Add("p99_us", Number(s.p99));
  object.Add("stdev_us", Number(s.deviation)).Add("cv_pct", Number(s.VariationPercent()));
  object.Add("times_us",
             List<double>(m.iterations, [](const double& time) { return Number(time); }));
  return object.Object();
}

std::string RowJson(const Options& o, const Row& row) {
  Builder object;
  object.Add("size", std::to_string(row.size)).Add("count", std::to_string(row.count));
  object.Add("type", QuoteJson(row.type)).Add("redop", QuoteJson(row.op));
  object.Add("root", QuoteJson(std::to_string(row.root)));
  object.Add("out_of_place", MeasurementJson(o, row.out_of_place));
  if (row.out_of_place.stats) {
    object.Add("out_of_place_per_iter", IterationsJson(o, row.out_of_place));
  }
  object.Add("in_place", MeasurementJson(o, row.in_place));
  if (row.in_place.stats) object.Add("in_place_per_iter", IterationsJson(o, row.in_place));
  object.Add("actual_iterations", std::to_string(o.iterations));
  return object.Object();
}

std::string RankJson(const RankInfo& rank) {
  Builder object;
  object.Add("rank", std::to_string(rank.rank)).Add("group", "0");
  object.Add("pid", std::to_string(rank.process_id)).Add("hostname", QuoteJson(rank.host));
  object.Add("device", std::to_string(rank.device));
  return object.Add("device_info", QuoteJson(rank.info.name)).Object();
}

std::string ConfigJson(const Options& o, const JsonReport& report) {
  const auto number = [](auto value) { return std::to_string(value); };
  Builder object;
  object.Add("nthreads", number(o.threads)).Add("ngpus", number(o.ranks_per_thread));
  object.Add("minimum_bytes", number(o.min_bytes)).Add("maximum_bytes", number(o.max_bytes));
  if (o.step_factor > 1) {
    object.Add("step_factor", number(o.step_factor));
  } else {
    object.Add("step_bytes", number(o.step_bytes));
  }
  object.Add("warmup_iters", number(o.warmup)).Add("iterations", number(o.iterations));
  object.Add("aggregated_iterations", number(o.aggregate)).Add("validation", number(o.check));
  object.Add("graph", number(o.graph)).Add("blocking_collectives", number(o.blocking));
  object.Add("per_iter_timing", number(o.per_iteration));
  object.Add("parallel_init", number(o.parallel_init));
  object.Add("scheme", o.scheme.empty() ? "null" : QuoteJson(o.scheme));
  object.Add("input", o.input.empty() ? "null" : QuoteJson(o.input));
  object.Add("seed", number(o.seed));
  return object.Add("devices", List<RankInfo>(report.ranks, RankJson)).Object();
}

}  // namespace

std::string QuoteJson(std::string_view text) {
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

std::string MakeJson(const Options& o, const JsonReport& report) {
  Builder object;
  object.Add("version", "3").Add("start_time", QuoteJson(report.start_time));
  object.Add("args", Strings(o.command_line)).Add("env", Strings(report.environment));
  object.Add("nccl_version", std::to_string(report.nccl_version));
  object.Add("config", ConfigJson(o, report));
  object.Add("results", List<Row>(report.rows, [&](const Row& row) { return RowJson(o, row); }));
  Builder bounds;
  bounds.Add("count", std::to_string(report.summary.failures));
  // Strings, as nccl-tests writes them.
  bounds.Add("okay", report.summary.failures == 0 ? "\"true\"" : "\"false\"");
  object.Add("out_of_bounds", bounds.Object());
  Builder bandwidth;
  bandwidth.Add("bandwidth", Number(report.summary.mean_busbw)).Add("okay", "\"unchecked\"");
  object.Add("average_bus_bandwidth", bandwidth.Object());
  return object.Add("end_time", QuoteJson(report.end_time)).Object() + "\n";
}

std::string WriteNewFile(const std::string& path, const std::string& text) {
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
