#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/text.h"
#include "report/report.h"

namespace terse::report {
namespace {

std::string show_bytes(size_t bytes) { return report::show_bytes(static_cast<double>(bytes)); }

std::string bytes_of(const Verdict& v) {
  std::string text = fmt::format(
      ": {} in place of {}, {:.2f} times less", show_bytes(v.wire.bytes), show_bytes(v.raw.bytes),
      quotient(static_cast<double>(v.raw.bytes), static_cast<double>(v.wire.bytes)));
  if (v.raw.off_node != 0)
    text += fmt::format(", and between nodes {} in place of {}", show_bytes(v.wire.off_node),
                        show_bytes(v.raw.off_node));
  return text;
}

// Ranks that a process drives: so many have one communicator there.
size_t ranks_of(const Report& report) {
  std::map<uint64_t, size_t> ranks;
  size_t most = 1;
  for (const Communicator& c : report.communicators)
    if (c.id != 0) most = std::max(most, ++ranks[c.id]);
  return most;
}

}  // namespace

Verdict& Verdict::operator+=(const Verdict& other) {
  calls += other.calls;
  others += other.others;
  raw += other.raw;
  wire += other.wire;
  single_gathers += other.single_gathers;
  in_calls += other.in_calls;
  seconds += other.seconds;
  predicted += other.predicted;
  predicted_native += other.predicted_native;
  error.add(other.error);
  return *this;
}

double Verdict::saved() const {
  const double gain = predicted_native - predicted;
  return predicted_native <= in_calls ? gain : gain * quotient(in_calls, predicted_native);
}

Verdict verdict_of(const Report& report) {
  Verdict v{.seconds = report.observed.value_or(0) * static_cast<double>(ranks_of(report))};
  for (const Communicator& c : report.communicators) {
    uint64_t native = 0;
    for (const auto& [reason, calls] : c.bypasses) native += calls;
    // In the first step all gathers are single ones.
    const bool recurs = std::ranges::any_of(c.rows, [](const Row& row) { return row.calls > 1; });
    for (const Row& row : c.rows) {
      v.calls += row.calls;
      v.single_gathers += recurs && row.calls == 1 && row.collective == "AllGather" &&
                          row.message.starts_with("float32");
      native -= std::min(native, row.calls);
      v.raw += row.raw;
      v.wire += row.wire;
      v.in_calls += row.times.total;
      if (row.times.predicted_native != 0) {
        v.predicted += row.times.predicted;
        v.predicted_native += row.times.predicted_native;
      }
      v.error.add(row.error.relative);
    }
    v.others += native;
  }
  return v;
}

std::string show_verdict(const Verdict& v) {
  const uint64_t all = v.calls + v.others;
  if (v.calls == 0) return fmt::format("none of {} would be compressed", counted(all, "call"));
  std::string text = fmt::format("{} of {} would be compressed", v.calls, counted(all, "call"));
  if (v.raw.bytes != 0) text += bytes_of(v);
  if (v.in_calls != 0)
    text += fmt::format("; they took {} of {}, {:.0f} %", show_seconds(v.in_calls),
                        show_seconds(v.seconds), 100 * quotient(v.in_calls, v.seconds));
  if (v.predicted_native != 0)
    text += fmt::format(
        "; predicted by the profile: {} in place of {}, {:.2f} times as fast, and the run {:.0f} % "
        "{}",
        show_seconds(v.predicted), show_seconds(v.predicted_native),
        quotient(v.predicted_native, v.predicted), 100 * std::abs(quotient(v.saved(), v.seconds)),
        v.saved() < 0 ? "longer" : "shorter");
  if (v.error.count() != 0)
    text += fmt::format("; encoded once they would err by {} (median), at most {}",
                        show_error(v.error.median()), show_error(v.error.greatest()));
  if (v.single_gathers != 0)
    text += fmt::format("; {} of fp32 came once (a checkpoint? pause for it)",
                        counted(v.single_gathers, "gather"));
  return text;
}

}  // namespace terse::report
