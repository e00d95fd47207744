#include "report/report.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"

namespace terse::report {

namespace {

double quotient(size_t a, size_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

double Error::pooled_relative() const {
  if (squares == 0) return 0;
  if (exact_squares == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(squares / exact_squares);
}

double Row::ratio() const { return quotient(raw.bytes, wire.bytes); }

double Row::off_node_ratio() const { return quotient(raw.off_node, wire.off_node); }

void write_file(const std::filesystem::path& path, const std::string& text) {
  // Of one folder, for the rename to be one step.
  const std::filesystem::path part = path.string() + fmt::format(".{}.part", getpid());
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) {
    const int cause = errno;
    unlink(part.c_str());
    fail(ncclSystemError, "cannot write {}: {}", part.string(), std::strerror(cause));
  }
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (!error) return;
  unlink(part.c_str());
  fail(ncclSystemError, "cannot write {}: {}", path.string(), error.message());
}

std::string show_communicator(uint64_t id, const std::string& name) {
  return fmt::format("communicator {:016x}{}", id,
                     name.empty() ? "" : fmt::format(" \"{}\"", name));
}

std::string show_bytes(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string show_seconds(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 999.5e-6) return fmt::format("{:.3g} us", 1e6 * seconds);
  if (seconds < 0.9995) return fmt::format("{:.3g} ms", 1e3 * seconds);
  return fmt::format("{:.4g} s", seconds);
}

std::string show_error(double relative) {
  if (std::isinf(relative)) return "infinite";
  return fmt::format("{:.3g} %", 100 * relative);
}

}  // namespace terse::report
