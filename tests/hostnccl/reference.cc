#include "reference.h"

#include <cmath>
#include <cstring>
#include <thread>

namespace hostnccl_test {
namespace {

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool finite;  // e4m3: one NaN, no infinity
};

const Format* format_of(ncclDataType_t type) {
  static constexpr Format kHalf{5, 10, false}, kBrain{8, 7, false}, kE4m3{4, 3, true},
      kE5m2{5, 2, false};
  switch (type) {
    case ncclFloat16:
      return &kHalf;
    case ncclBfloat16:
      return &kBrain;
    case ncclFloat8e4m3:
      return &kE4m3;
    case ncclFloat8e5m2:
      return &kE5m2;
    default:
      return nullptr;
  }
}

// From the definition: sign, exponent, mantissa.
double decode_format(const Format& f, uint32_t code) {
  const uint32_t mantissa = code & ((1u << f.mantissa_bits) - 1);
  const uint32_t exponent = code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1);
  const double sign = code >> (f.mantissa_bits + f.exponent_bits) & 1 ? -1 : 1;
  const uint32_t top = (1u << f.exponent_bits) - 1;
  const int bias = (1 << (f.exponent_bits - 1)) - 1;
  if (exponent == top && (!f.finite || mantissa == (1u << f.mantissa_bits) - 1)) {
    return mantissa == 0 && !f.finite ? sign * INFINITY : NAN;
  }
  const double fraction = std::ldexp(mantissa, -f.mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias)
                       : sign * std::ldexp(1 + fraction, static_cast<int>(exponent) - bias);
}

// All codes of a format, decoded once.
const std::vector<double>& values_of(const Format& f) {
  static std::vector<double> values[2][12];
  auto& table = values[f.finite][f.mantissa_bits];
  if (table.empty()) {
    const uint32_t codes = 2u << (f.exponent_bits + f.mantissa_bits);
    for (uint32_t code = 0; code < codes; ++code) table.push_back(decode_format(f, code));
  }
  return table;
}

// Nearest, ties to the even code, by bisection over the ordered positive codes.
uint32_t encode_format(const Format& f, double value) {
  const int bits = f.mantissa_bits + f.exponent_bits;
  const uint32_t sign = std::signbit(value) ? 1u << bits : 0;
  const uint32_t top = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  const uint32_t special = f.finite ? (1u << bits) - 1 : top;  // the first code that is no number
  if (std::isnan(value)) return special + (f.finite ? 0 : 1u << (f.mantissa_bits - 1));
  const double magnitude = std::fabs(value);
  const std::vector<double>& values = values_of(f);
  uint32_t low = 0, high = special;
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (values[middle] <= magnitude ? low : high) = middle;
  }
  const double below = values[low];
  // Beyond the largest number comes what would be next if the exponent went on.
  const double above = high == special ? below + (below - values[low - 1]) : values[high];
  const double to_low = magnitude - below, to_high = above - magnitude;
  return sign | (to_low < to_high || (to_low == to_high && low % 2 == 0) ? low : high);
}

template <class T>
void put(T value, void* to) {
  std::memcpy(to, &value, sizeof(T));
}
template <class T>
double get(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return static_cast<double>(value);
}

}  // namespace

size_t size_of(ncclDataType_t type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kSizes[type];
}

bool is_float(ncclDataType_t type) { return type >= ncclFloat16; }
bool is_signed(ncclDataType_t type) {
  return is_float(type) || type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

void encode(ncclDataType_t type, double value, void* to) {
  if (const Format* format = format_of(type)) {
    const uint32_t code = encode_format(*format, value);
    return size_of(type) == 1 ? put(static_cast<uint8_t>(code), to)
                              : put(static_cast<uint16_t>(code), to);
  }
  if (type == ncclFloat32) return put(static_cast<float>(value), to);
  if (type == ncclFloat64) return put(value, to);
  const auto integer = static_cast<uint64_t>(static_cast<int64_t>(value));
  std::memcpy(to, &integer, size_of(type));  // little endian: the low bytes
}

double decode(ncclDataType_t type, const void* from) {
  if (const Format* format = format_of(type)) {
    uint16_t code = 0;
    std::memcpy(&code, from, size_of(type));
    return values_of(*format)[code];
  }
  switch (type) {
    case ncclInt8:
      return get<int8_t>(from);
    case ncclUint8:
      return get<uint8_t>(from);
    case ncclInt32:
      return get<int32_t>(from);
    case ncclUint32:
      return get<uint32_t>(from);
    case ncclInt64:
      return get<int64_t>(from);
    case ncclUint64:
      return get<uint64_t>(from);
    case ncclFloat32:
      return get<float>(from);
    default:
      return get<double>(from);
  }
}

double rounded(ncclDataType_t type, double value) {
  char code[8];
  encode(type, value, code);
  return decode(type, code);
}

Buffer::Buffer(ncclDataType_t type, size_t count, size_t shift)
    : type_(type),
      count_(count),
      shift_(shift),
      memory_(2 * kGuard + shift + count * size_of(type), '\x5a') {}

void Buffer::fill(const std::function<double(size_t)>& value) {
  for (size_t i = 0; i < count_; ++i) set(i, value(i));
}

bool Buffer::guards_intact() const {
  const auto intact = [](const char* from, const char* to) {
    for (; from != to; ++from) {
      if (*from != '\x5a') return false;
    }
    return true;
  };
  return intact(memory_.data(), data()) && intact(at(count_), memory_.data() + memory_.size());
}

bool Buffer::operator==(const Buffer& other) const {
  return count_ == other.count_ && std::memcmp(data(), other.data(), count_ * size_of(type_)) == 0;
}

double input(ncclDataType_t type, ncclRedOp_t op, int rank, size_t i) {
  const auto mix = static_cast<int>((i * 7 + static_cast<size_t>(rank) * 13 + i / 5) % 12);
  if (op == ncclProd) return is_signed(type) ? (mix % 3 == 0 ? -1 : mix % 3) : 1 + mix % 3;
  return is_signed(type) ? mix % 4 - 1 : mix % 4;
}

double reduced(ncclDataType_t type, ncclRedOp_t op, int ranks, size_t i) {
  double result = input(type, op, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double x = input(type, op, rank, i);
    result = op == ncclProd  ? result * x
             : op == ncclMax ? std::fmax(result, x)
             : op == ncclMin ? std::fmin(result, x)
                             : result + x;
  }
  if (op == ncclAvg) return std::trunc(result / ranks);  // of integers
  return op == ncclNumOps ? 2 * result : result;
}

std::vector<double> averages(ncclDataType_t type, int ranks, size_t i) {
  const double factor = rounded(type, 1.0 / ranks);
  const auto part = [&](int rank) {
    return rounded(type, factor * input(type, ncclAvg, rank % ranks, i));
  };
  std::vector<double> found;
  for (int first = 0; first < ranks; ++first) {
    double sum = part(first);
    for (int k = 1; k < ranks; ++k) sum = rounded(type, sum + part(first + k));
    found.push_back(sum);
  }
  return found;
}

Clique::Clique(int size) : comms_(static_cast<size_t>(size)) {
  EXPECT_NCCL(ncclCommInitAll(comms_.data(), size, nullptr));
}

Clique::~Clique() {
  for (ncclComm_t comm : comms_) EXPECT_NCCL(ncclCommDestroy(comm));
}

ncclResult_t Clique::each(const std::function<ncclResult_t(int, ncclComm_t)>& call) const {
  EXPECT_NCCL(ncclGroupStart());
  for (int rank = 0; rank < size(); ++rank) (void)call(rank, (*this)[rank]);
  return ncclGroupEnd();
}

void on_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hostnccl_test
