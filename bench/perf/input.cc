#include "input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

namespace terse::perf {
namespace {

// A counter-based generator (SplitMix64's finaliser): the number depends on its place only.
std::uint64_t hash(std::uint64_t seed, std::uint64_t rank, std::uint64_t index) {
  std::uint64_t z = seed * 0x9e3779b97f4a7c15 + rank * 0xd1342543de82ef95 + index;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// 16 random bits for an element; four neighbours share one hash.
std::uint32_t random16(const Input& input, int rank, std::size_t index) {
  const std::uint64_t word = hash(input.seed, static_cast<std::uint64_t>(rank), index / 4);
  return static_cast<std::uint32_t>(word >> (16 * (index % 4)) & 0xffff);
}

// Quantiles of the normal distribution at (k + 1/2) / 65536: a look-up is much cheaper than a
// logarithm, and 65536 values reach 4.3 deviations.
const std::vector<float>& normal_quantiles() {
  static const std::vector<float> quantiles = [] {
    constexpr int kHalf = 32768;
    std::vector<float> table(2 * kHalf);
    double x = 0;
    for (int k = 0; k < kHalf; ++k) {
      const double tail = (kHalf - k - 0.5) / (2 * kHalf);  // P(X > x)
      for (int step = 0; step < 4; ++step) {                // Newton, from the neighbour's x
        const double density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
        x += (0.5 * std::erfc(x / std::sqrt(2.0)) - tail) / density;
      }
      table[static_cast<std::size_t>(kHalf + k)] = static_cast<float>(x);
      table[static_cast<std::size_t>(kHalf - 1 - k)] = static_cast<float>(-x);
    }
    return table;
  }();
  return quantiles;
}

void round_to(const DataType& type, std::size_t count, double* values) {
  std::array<unsigned char, 4096> rounded;
  const std::size_t step = rounded.size() / type.bytes;
  for (std::size_t done = 0; done < count; done += step) {
    const std::size_t part = std::min(step, count - done);
    type.store(values + done, part, rounded.data());
    type.load(rounded.data(), part, values + done);
  }
}

// The same as a type of floats has them, each rounded once.
const std::vector<float>& rounded_quantiles(const DataType& type) {
  static std::mutex mutex;
  static std::map<const DataType*, std::vector<float>> tables;
  const std::lock_guard lock(mutex);
  std::vector<float>& table = tables[&type];
  if (table.empty()) {
    std::vector<double> values(normal_quantiles().begin(), normal_quantiles().end());
    round_to(type, values.size(), values.data());
    table.assign(values.begin(), values.end());
  }
  return table;
}

bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

// Only `contributors` neighbouring ranks send something other than `neutral`, and which ones moves
// on with the element: so however many ranks there are, partial results stay within the type.
bool contributes(const Input& input, int rank, std::size_t index, int contributors) {
  const auto n = static_cast<std::size_t>(input.nranks);
  return (static_cast<std::size_t>(rank) + n - index % n) % n <
         static_cast<std::size_t>(contributors);
}

// A whole number in [-limit, limit], or [0, limit] for unsigned types.
double small_integer(const Input& input, std::uint32_t random, int limit) {
  if (!input.type->is_signed) return static_cast<double>(random % static_cast<unsigned>(limit + 1));
  return static_cast<double>(random % static_cast<unsigned>(2 * limit + 1)) - limit;
}

double exact_product(const Input& input, int rank, std::size_t index, std::uint32_t random) {
  const double sign = input.type->is_signed && (random & 1) != 0 ? -1 : 1;
  return sign * (contributes(input, rank, index, std::min(input.nranks, 3)) ? 2 : 1);
}

// An average divides by n, and where n is no power of two that rounds. One power of two over n
// rounds the same way whether it is scaled before or after adding zeros.
double exact_average(const Input& input, int rank, std::size_t index, std::uint32_t random) {
  if (!contributes(input, rank, index, 1)) return 0;
  const double sign = (random & 1) != 0 ? -1 : 1;
  return sign * static_cast<double>(1 << (random >> 1) % 4);
}

double exact_value(const Input& input, int rank, std::size_t index, std::uint32_t random) {
  const int limit = input.type->exact;
  switch (input.op) {
    case Op::kNone:
    case Op::kMax:
    case Op::kMin:
      return small_integer(input, random, limit);
    case Op::kProd:
      return exact_product(input, rank, index, random);
    case Op::kAvg:
      if (input.type->is_float && !is_power_of_two(input.nranks)) {
        return exact_average(input, rank, index, random);
      }
      break;
    case Op::kSum:
    case Op::kMulSum:
      break;
  }
  const int budget = input.op == Op::kMulSum ? limit / 2 : limit;
  const int contributors = std::min(input.nranks, budget);
  if (!contributes(input, rank, index, contributors)) return 0;
  return small_integer(input, random, budget / contributors);
}

void fill_exact(const Input& input, int rank, std::size_t first, std::size_t count,
                double* values) {
  for (std::size_t k = 0; k < count; ++k) {
    values[k] = exact_value(input, rank, first + k, random16(input, rank, first + k));
  }
}

void fill_from(const std::vector<float>& quantiles, const Input& input, int rank, std::size_t first,
               std::size_t count, double* values) {
  std::size_t k = 0;
  for (; k < count && (first + k) % 4 != 0; ++k)
    values[k] = quantiles[random16(input, rank, first + k)];
  for (; k + 4 <= count; k += 4) {
    const std::uint64_t word = hash(input.seed, static_cast<std::uint64_t>(rank), (first + k) / 4);
    for (std::size_t i = 0; i < 4; ++i) values[k + i] = quantiles[word >> (16 * i) & 0xffff];
  }
  for (; k < count; ++k) values[k] = quantiles[random16(input, rank, first + k)];
}

void fill_gauss(const Input& input, int rank, std::size_t first, std::size_t count,
                double* values) {
  fill_from(normal_quantiles(), input, rank, first, count, values);
}

void fill_uniform(const Input& input, int rank, std::size_t first, std::size_t count,
                  double* values) {
  for (std::size_t k = 0; k < count; ++k) {
    values[k] = static_cast<double>(random16(input, rank, first + k)) / 32768 - 1;
  }
}

void fill_file(const Input& input, int rank, std::size_t first, std::size_t count, double* values) {
  const InputFile& file = *input.files[static_cast<std::size_t>(rank)];
  for (std::size_t k = 0; k < count; ++k) values[k] = file.data()[(first + k) % file.count()];
}

using Fill = void (*)(const Input&, int, std::size_t, std::size_t, double*);
constexpr std::array<Fill, 4> kFills = {fill_exact, fill_gauss, fill_uniform, fill_file};

std::string replace_rank(const std::string& pattern, int rank) {
  static const std::string place = "{rank}";
  std::string path = pattern;
  for (std::size_t at = path.find(place); at != std::string::npos; at = path.find(place)) {
    path.replace(at, place.size(), std::to_string(rank));
  }
  return path;
}

}  // namespace

InputFile::InputFile(const std::string& path) {
  const std::string name = "--input file " + path + ": ";
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw std::runtime_error(name + std::strerror(errno));
  struct stat status = {};
  fstat(descriptor, &status);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* map = bytes == 0 ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (bytes == 0 || bytes % sizeof(float) != 0) {
    if (map != MAP_FAILED) munmap(map, bytes);
    throw std::runtime_error(name + std::to_string(bytes) + " bytes are no fp32 numbers");
  }
  if (map == MAP_FAILED) throw std::runtime_error(name + std::strerror(errno));
  count_ = bytes / sizeof(float);
  data_ = static_cast<const float*>(map);
}

InputFile::~InputFile() { munmap(const_cast<float*>(data_), count_ * sizeof(float)); }

InputFiles open_input_files(const std::string& pattern, int nranks) {
  InputFiles files;
  for (int rank = 0; rank < nranks; ++rank) {
    const std::string path = replace_rank(pattern, rank);
    files.push_back(std::make_shared<const InputFile>(path));
    if (files.back()->count() != files.front()->count()) {
      throw std::runtime_error("--input file " + path + " holds " +
                               std::to_string(files.back()->count()) + " numbers, rank 0's " +
                               std::to_string(files.front()->count()));
    }
  }
  return files;
}

void fill_input(const Input& input, int rank, std::size_t first, std::size_t count,
                double* values) {
  kFills[static_cast<std::size_t>(input.kind)](input, rank, first, count, values);
}

void fill_input_rounded(const Input& input, int rank, std::size_t first, std::size_t count,
                        double* values) {
  if (input.kind == InputKind::kGauss && input.type->is_float)
    return fill_from(rounded_quantiles(*input.type), input, rank, first, count, values);
  fill_input(input, rank, first, count, values);
  round_to(*input.type, count, values);
}

}  // namespace terse::perf
