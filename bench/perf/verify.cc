#include "verify.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace terse::perf {
namespace {

constexpr std::size_t kChunk = 2048;

double combine(Op op, int rank, double sum, double value) {
  switch (op) {
    case Op::kProd:
      return sum * value;
    case Op::kMax:
      return std::max(sum, value);
    case Op::kMin:
      return std::min(sum, value);
    case Op::kMulSum:
      return sum + value * pre_mul_scalar(rank);
    case Op::kSum:
    case Op::kAvg:
    case Op::kNone:
      return sum + value;
  }
  return sum;
}

double neutral(Op op) {
  switch (op) {
    case Op::kProd:
      return 1;
    case Op::kMax:
      return -std::numeric_limits<double>::infinity();
    case Op::kMin:
      return std::numeric_limits<double>::infinity();
    default:
      return 0;
  }
}

void reduce(const Input& input, std::size_t first, std::size_t count, double* values) {
  std::array<double, kChunk> terms;
  std::fill_n(values, count, neutral(input.op));
  for (int rank = 0; rank < input.nranks; ++rank) {
    fill_input_rounded(input, rank, first, count, terms.data());
    for (std::size_t k = 0; k < count; ++k) {
      values[k] = combine(input.op, rank, values[k], terms[k]);
    }
  }
  if (input.op != Op::kAvg) return;
  for (std::size_t k = 0; k < count; ++k) {
    values[k] /= input.nranks;
    if (!input.type->is_float) values[k] = std::trunc(values[k]);  // as integer division does
  }
}

// Hands the exact result and the output, chunk by chunk, to visit(exact, actual, count).
template <typename Visit>
void for_each_chunk(const Collective& collective, const Shape& shape, const Input& input,
                    const Seat& seat, const void* output, std::size_t first, std::size_t last,
                    Visit visit) {
  std::array<double, kChunk> exact;
  std::array<double, kChunk> actual;
  const auto* bytes = static_cast<const unsigned char*>(output);
  for (std::size_t at = first; at < last; at += kChunk) {
    const std::size_t count = std::min(kChunk, last - at);
    expected_output(collective, shape, input, seat, at, count, exact.data());
    input.type->load(bytes + at * input.type->bytes, count, actual.data());
    visit(exact.data(), actual.data(), count);
  }
}

}  // namespace

void expected_output(const Collective& collective, const Shape& shape, const Input& input,
                     const Seat& seat, std::size_t first, std::size_t count, double* values) {
  for (std::size_t done = 0; done < count;) {
    const Origin origin = collective.origin(seat, first + done, shape);
    const std::size_t part = std::min({count - done, origin.length, kChunk});
    if (origin.rank == Origin::kReduced) {
      reduce(input, origin.first, part, values + done);
    } else if (origin.rank == Origin::kZero) {
      std::fill_n(values + done, part, 0.0);
    } else {
      fill_input_rounded(input, origin.rank, origin.first, part, values + done);
    }
    done += part;
  }
}

std::size_t count_wrong(const Collective& collective, const Shape& shape, const Input& input,
                        const Seat& seat, const void* output) {
  std::size_t wrong = 0;
  std::array<double, kChunk> rounded;
  std::array<unsigned char, kChunk * sizeof(double)> stored;
  for_each_chunk(collective, shape, input, seat, output, 0, shape.receive,
                 [&](const double* exact, const double* actual, std::size_t count) {
                   input.type->store(exact, count, stored.data());
                   input.type->load(stored.data(), count, rounded.data());
                   for (std::size_t k = 0; k < count; ++k) wrong += rounded[k] != actual[k] ? 1 : 0;
                 });
  return wrong;
}

SquaredError measure_error(const Collective& collective, const Shape& shape, const Input& input,
                           const Seat& seat, const void* output) {
  std::size_t first = 0;
  std::size_t last = shape.receive;
  if (collective.same_everywhere && input.nranks > 1) {
    const auto n = static_cast<std::size_t>(input.nranks);
    const std::size_t slice = static_cast<std::size_t>(seat.rank + 1) % n;
    first = shape.receive * slice / n;
    last = shape.receive * (slice + 1) / n;
  }
  SquaredError sums;
  for_each_chunk(collective, shape, input, seat, output, first, last,
                 [&](const double* exact, const double* actual, std::size_t count) {
                   for (std::size_t k = 0; k < count; ++k) {
                     const double difference = actual[k] - exact[k];
                     sums.error += difference * difference;
                     sums.norm += exact[k] * exact[k];
                   }
                 });
  return sums;
}

double relative_error(const SquaredError& sums) {
  if (sums.norm > 0) return std::sqrt(sums.error / sums.norm);
  return sums.error > 0 ? std::numeric_limits<double>::infinity() : sums.error;
}

std::uint64_t checksum(const void* data, std::size_t bytes) {
  const auto* in = static_cast<const unsigned char*>(data);
  std::uint64_t hash = 0x9e3779b97f4a7c15 ^ bytes;
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, in + at, std::min(sizeof(word), bytes - at));
    hash = std::rotl((hash ^ word) * 0xd6e8feb86659fd93, 32);
  }
  return (hash ^ hash >> 29) * 0xd6e8feb86659fd93;
}

}  // namespace terse::perf
