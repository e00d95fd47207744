// A report as metrics, in Prometheus's text format (OpenMetrics): families of samples with labels.
#include <fmt/format.h>

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "report/report.h"

namespace terse::report {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Escapes a label's value, between quotes.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string text_of(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value));
  return text;
}

Labels with(Labels labels, std::string_view name, std::string value) {
  labels.emplace_back(name, std::move(value));
  return labels;
}

// Family of samples, which follow each other in the text.
class Family {
 public:
  Family(std::string_view name, std::string_view type, std::string_view help)
      : name_(name), text_(fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help)) {}

  void add(const Labels& labels, double value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}}} {}\n", name_, text_of(labels), value);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string name_;
  std::string text_;
};

Labels labels_of(const Communicator& c) {
  Labels labels{{"rank", std::to_string(c.rank)}, {"communicator", fmt::format("{:016x}", c.id)}};
  return c.names.own.empty() ? labels : with(labels, "name", c.names.own);
}

Labels labels_of(const Communicator& c, const Row& row) {
  return with(with(labels_of(c), "collective", row.collective), "scheme", row.scheme);
}

// A counter of rows.
struct Counter {
  const char *name, *help;
  double (*value)(const Row&);
};

constexpr Counter kCounters[] = {
    {"calls_total", "calls by collective and scheme",
     [](const Row& r) { return static_cast<double>(r.calls); }},
    {"fused_calls_total", "of the calls, those that were one step in memory of all ranks",
     [](const Row& r) { return static_cast<double>(r.fused_calls); }},
    {"raw_bytes_total", "bytes that they would have sent natively",
     [](const Row& r) { return static_cast<double>(r.raw.bytes); }},
    {"wire_bytes_total", "bytes that they sent",
     [](const Row& r) { return static_cast<double>(r.wire.bytes); }},
    {"raw_off_node_bytes_total", "of the native bytes, those that would have left the node",
     [](const Row& r) { return static_cast<double>(r.raw.off_node); }},
    {"wire_off_node_bytes_total", "of the bytes, those that left the node",
     [](const Row& r) { return static_cast<double>(r.wire.off_node); }},
    {"raw_off_pod_bytes_total", "of the native bytes, those that would have left the pod",
     [](const Row& r) { return static_cast<double>(r.raw.off_pod); }},
    {"wire_off_pod_bytes_total", "of the bytes, those that left the pod",
     [](const Row& r) { return static_cast<double>(r.wire.off_pod); }},
    {"timed_calls_total", "calls whose times are known",
     [](const Row& r) { return static_cast<double>(r.times.calls); }},
    {"seconds_total", "time of those calls", [](const Row& r) { return r.times.total; }},
    {"verified_calls_total", "calls whose errors are known",
     [](const Row& r) { return static_cast<double>(r.error.calls()); }},
};

// Calls `see` with each row and its communicator.
template <class See>
void for_each_row(const Report& report, const See& see) {
  for (const Communicator& c : report.communicators)
    for (const Row& row : c.rows) see(c, row);
}

std::string errors(const Report& report, std::string_view prefix) {
  Family family(fmt::format("{}relative_error", prefix), "gauge",
                "relative error of a call: the median, the 99th percentile and the worst");
  for_each_row(report, [&](const Communicator& c, const Row& row) {
    constexpr std::pair<unsigned, const char*> kQuantiles[] = {
        {50, "0.5"}, {99, "0.99"}, {100, "1"}};
    for (const auto& [percent, quantile] : kQuantiles)
      if (row.error.calls() != 0)
        family.add(with(labels_of(c, row), "quantile", quantile),
                   row.error.relative.percentile(percent));
  });
  return family.text();
}

std::string natives(const Report& report) {
  Family calls("terse_native_calls_total", "counter", "calls that stayed native, by reason"),
      bytes("terse_native_bytes_total", "counter", "bytes that they sent");
  for (const Communicator& c : report.communicators) {
    for (const auto& [reason, number] : c.bypasses)
      calls.add(with(labels_of(c), "reason", reason), static_cast<double>(number));
    bytes.add(labels_of(c), static_cast<double>(c.native.bytes));
  }
  return calls.text() + bytes.text();
}

}  // namespace

std::string to_metrics(const Report& report) {
  const std::string prefix = report.observed ? "terse_observed_" : "terse_compressed_";
  std::string text;
  for (const Counter& counter : kCounters) {
    Family family(prefix + counter.name, "counter", counter.help);
    for_each_row(report, [&](const Communicator& c, const Row& row) {
      family.add(labels_of(c, row), counter.value(row));
    });
    text += family.text();
  }
  return text + errors(report, prefix) + natives(report) + "# EOF\n";
}

}  // namespace terse::report
