#include "report/report.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/text.h"

namespace terse::report {

double Error::pooled_relative() const {
  if (squares == 0) return 0;
  if (exact_squares == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(squares / exact_squares);
}

Race& Race::operator+=(const Race& other) {
  calls += other.calls;
  native += other.native;
  compressed += other.compressed;
  return *this;
}

double quotient(double a, double b) {
  return b == 0 ? std::numeric_limits<double>::quiet_NaN() : a / b;
}

double Row::ratio() const {
  return quotient(static_cast<double>(raw.bytes), static_cast<double>(wire.bytes));
}

double Row::off_node_ratio() const {
  return quotient(static_cast<double>(raw.off_node), static_cast<double>(wire.off_node));
}

double Row::off_pod_ratio() const {
  return quotient(static_cast<double>(raw.off_pod), static_cast<double>(wire.off_pod));
}

std::string label(const Names& names) {
  if (!names.own.empty()) return fmt::format("\"{}\"", printable(names.own));
  const std::string number = names.number ? fmt::format("#{}", *names.number) : "";
  if (names.made_from.empty()) return number;
  return fmt::format("{}{}from \"{}\"", number, number.empty() ? "" : " ",
                     printable(names.made_from));
}

std::string show_communicator(uint64_t id, const std::string& label) {
  return fmt::format("communicator {:016x}{}{}", id, label.empty() ? "" : " ", label);
}

std::string show_ratio(double ratio) {
  return std::isnan(ratio) ? "-" : fmt::format("{:.2f}", ratio);
}

std::string show_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string show_seconds(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 999.5e-6) return fmt::format("{:.3g} us", 1e6 * seconds);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", 1e3 * seconds);
  return seconds < 999.5 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

std::string show_error(double relative) {
  if (std::isinf(relative)) return "infinite";
  return fmt::format("{:.3g} %", 100 * relative);
}

std::string show_error_scale(const Row& row) {
  if (!row.error_scale) return "";
  return fmt::format("one encoding of Gaussian data errs by {}; {}",
                     show_error(row.error_scale->gaussian),
                     row.error_scale->unbiased ? "unbiased: errors average out over steps"
                                               : "biased: errors do not average out");
}

std::string show_race(const Race& race, uint64_t calls) {
  if (race.calls == 0) return "";
  const auto each = [&](double seconds) {
    return show_seconds(seconds / static_cast<double>(race.calls));
  };
  return fmt::format(
      "natively {} a call, compressed {}: {:.2f} times as fast, by {} call{} that ran both ways",
      each(race.native), each(race.compressed), race.speedup(), calls, calls == 1 ? "" : "s");
}

}  // namespace terse::report
