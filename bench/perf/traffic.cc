#include "traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "options.h"

namespace terse::perf {
namespace {

constexpr const char* kFile = "NCCL_TESTS_ALLTOALLV_MATRIX_FILE";
constexpr const char* kScale = "NCCL_TESTS_ALLTOALLV_MATRIX_SCALE";
constexpr const char* kSpread = "NCCL_TESTS_ALLTOALLV_SPREAD";
constexpr const char* kSummary = "NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY";
constexpr std::size_t kUnit = 16;  // bytes

double read_factor(GetEnv get, const char* name, double otherwise, double high) {
  const char* const text = get(name);
  if (text == nullptr) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value >= 0 && value <= high)) {
    throw std::invalid_argument(
        fmt::format("{}={} is not a number from 0 to {}", name, text, high));
  }
  return value;
}

std::vector<std::size_t> read_row(const std::string& line, double scale, const std::string& where) {
  std::vector<std::size_t> row;
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    char* end = nullptr;
    const double bytes = std::strtod(word.c_str(), &end) * scale;
    if (*end != '\0' || !(bytes >= 0 && bytes < 0x1p53)) {
      throw std::invalid_argument(fmt::format("{}: '{}' is no number of bytes", where, word));
    }
    row.push_back(static_cast<std::size_t>(bytes) / kUnit * kUnit);
  }
  return row;
}

std::vector<std::vector<std::size_t>> read_matrix(const std::string& path, double scale) {
  std::ifstream file(path);
  if (!file) throw std::invalid_argument(fmt::format("{}={} cannot be read", kFile, path));
  std::vector<std::vector<std::size_t>> matrix;
  for (std::string line; std::getline(file, line);) {
    auto row = read_row(line, scale, fmt::format("{}={}", kFile, path));
    if (!row.empty()) matrix.push_back(std::move(row));
  }
  if (matrix.empty()) throw std::invalid_argument(fmt::format("{}={} is empty", kFile, path));
  for (const auto& row : matrix) {
    if (row.size() == matrix.size()) continue;
    throw std::invalid_argument(fmt::format("{}={} is not square: {} rows, and one of {} numbers",
                                            kFile, path, matrix.size(), row.size()));
  }
  return matrix;
}

template <typename Each>
std::size_t sum_over(int nranks, Each each) {
  std::size_t sum = 0;
  for (int rank = 0; rank < nranks; ++rank) sum += each(rank);
  return sum;
}

template <typename Each>
std::size_t max_of(int nranks, Each each) {
  std::size_t most = 0;
  for (int rank = 0; rank < nranks; ++rank) most = std::max<std::size_t>(most, each(rank));
  return most;
}

}  // namespace

Traffic Traffic::read(GetEnv get) {
  Traffic traffic;
  traffic.spread_ = read_factor(get, kSpread, 1, 1);
  const double scale = read_factor(get, kScale, 1, 0x1p53);
  const char* const summary = get(kSummary);
  traffic.summary_ = summary != nullptr && std::atoi(summary) != 0;
  if (const char* const file = get(kFile)) {
    traffic.file_ = file;
    traffic.matrix_ = read_matrix(file, scale);
  }
  return traffic;
}

std::size_t Traffic::count(int from, int to, int nranks, const Shape& shape) const {
  if (is_matrix()) {
    const auto bytes = matrix_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
    return bytes / kUnit * shape.align;
  }
  const double total = static_cast<double>(shape.parameter) * nranks;
  const double alike = total / nranks;
  const int distance = (to - from + nranks) % nranks;
  const double pairs = 0.5 * nranks * (nranks - 1);
  const double farther = nranks == 1 ? total : distance * total / pairs;
  const double count = (1 - spread_) * alike + spread_ * farther;
  return static_cast<std::size_t>(count) / shape.align * shape.align;
}

std::size_t Traffic::offset(int from, int to, int nranks, const Shape& shape) const {
  return sum_over(to, [&](int before) { return count(from, before, nranks, shape); });
}

std::size_t Traffic::max_sent(int nranks, const Shape& shape) const {
  return max_of(nranks, [&](int rank) { return offset(rank, nranks, nranks, shape); });
}

std::size_t Traffic::max_received(int nranks, const Shape& shape) const {
  return max_of(nranks, [&](int rank) {
    return sum_over(nranks, [&](int from) { return count(from, rank, nranks, shape); });
  });
}

void Traffic::require(const Options& o, int nranks) const {
  if (!is_matrix()) return;
  const std::string name = fmt::format("{}={}", kFile, file_);
  if (static_cast<std::size_t>(nranks) > matrix_.size()) {
    throw std::invalid_argument(
        fmt::format("{} has {} rows, and there are {} ranks", name, matrix_.size(), nranks));
  }
  if (o.min_bytes != o.max_bytes || !o.input.empty()) {
    throw std::invalid_argument(name +
                                " gives the sizes: -b and -e must be equal, without --input");
  }
  const Shape bytes = {0, 0, 0, 0, 0, kUnit};
  const std::size_t needed = std::max(max_sent(nranks, bytes), max_received(nranks, bytes));
  if (o.max_bytes < needed) {
    throw std::invalid_argument(fmt::format("{} needs -e of at least {}", name, needed));
  }
}

const Traffic& traffic() {
  static const Traffic traffic =
      Traffic::read([](const char* name) -> const char* { return std::getenv(name); });
  return traffic;
}

Shape traffic_shape(std::size_t total, std::size_t align, int nranks) {
  Shape shape = exchanging_shape(total, align, nranks);
  if (traffic().is_matrix()) shape.parameter = 0;
  shape.send = traffic().max_sent(nranks, shape);
  shape.receive = traffic().max_received(nranks, shape);
  return shape;
}

void require_traffic(const Options& options, int nranks) { traffic().require(options, nranks); }

std::string traffic_notes(const Shape& shape, std::size_t bytes, int nranks, double seconds) {
  if (!traffic().prints_summary()) return "";
  std::string text;
  for (int rank = 0; rank < nranks; ++rank) {
    const auto sent = traffic().offset(rank, nranks, nranks, shape) * bytes;
    const auto received =
        sum_over(nranks, [&](int from) { return traffic().count(from, rank, nranks, shape); }) *
        bytes;
    const double algbw = static_cast<double>(std::max(sent, received)) / 1e9 / seconds;
    text += fmt::format("#   rank={} send_bytes={} recv_bytes={} alg_bw={:.2f} bus_bw={:.2f}\n",
                        rank, sent, received, algbw, algbw * others_share(nranks));
  }
  return text;
}

}  // namespace terse::perf
