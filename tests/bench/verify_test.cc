#include "verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace terse::perf {
namespace {

struct Setting {
  const Collective& collective;
  Input input;
  Shape shape;

  Seat seat(int rank) const { return {rank, input.nranks, collective.rooted ? 1 : -1, false}; }
};

Setting make(const Collective& collective, const char* type, Op op, int nranks,
             std::size_t total = 10000) {
  const InputKind kind = InputKind::kExact;
  return {collective,
          {kind, &find_data_type(type), op, nranks, 7, {}},
          collective.shape(total, 4, nranks)};
}

// What a right implementation would leave in a rank's buffer.
std::vector<unsigned char> right_output(const Setting& s, int rank) {
  std::vector<double> values(s.shape.receive);
  expected_output(s.collective, s.shape, s.input, s.seat(rank), 0, values.size(), values.data());
  std::vector<unsigned char> output(values.size() * s.input.type->bytes);
  s.input.type->store(values.data(), values.size(), output.data());
  return output;
}

std::size_t wrong(const Setting& s, int rank, const std::vector<unsigned char>& output) {
  return count_wrong(s.collective, s.shape, s.input, s.seat(rank), output.data());
}

TEST(ExpectedOutput, IsTheSumOfWhatRanksSend) {
  const Setting s = make(find_collective("all_reduce"), "float", Op::kSum, 3);
  std::vector<double> sum(100);
  std::vector<double> term(100);
  for (int rank = 0; rank < 3; ++rank) {
    fill_input(s.input, rank, 5000, 100, term.data());
    for (std::size_t k = 0; k < 100; ++k) sum[k] += term[k];
  }
  std::vector<double> expected(100);
  expected_output(s.collective, s.shape, s.input, s.seat(1), 5000, 100, expected.data());
  EXPECT_EQ(expected, sum);
}

TEST(CountWrong, FindsNothingWrongWithARightResult) {
  for (const DataType& type : data_types()) {
    for (const Collective& collective : collectives()) {
      const Op op = collective.reduces() ? Op::kSum : Op::kNone;
      const Setting s = make(collective, type.name, op, 4, 5000);
      for (int rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(wrong(s, rank, right_output(s, rank)), 0u) << collective.program;
        // Nothing was received: where something should have been, most of it is seen.
        const std::vector<unsigned char> nothing(s.shape.receive * type.bytes);
        const bool receives = s.seat(rank).is_root() || !collective.only_root_receives;
        EXPECT_EQ(wrong(s, rank, nothing) > s.shape.receive / 4, receives) << collective.program;
      }
    }
  }
}

TEST(CountWrong, CountsEveryCorruptElementExactly) {
  for (const DataType& type : data_types()) {
    const Setting s = make(find_collective("all_reduce"), type.name, Op::kSum, 4);
    std::vector<unsigned char> output = right_output(s, 0);
    const std::size_t places[] = {0, 1, 2047, 2048, 5000, s.shape.receive - 1};
    std::size_t corrupted = 0;
    for (const std::size_t place : places) {
      output[place * type.bytes] ^= 1;  // the last bit of one element
      EXPECT_EQ(wrong(s, 0, output), ++corrupted) << type.name << " at " << place;
    }
  }
}

TEST(CountWrong, SeesSwappedRanks) {
  const Setting s = make(find_collective("all_gather"), "float", Op::kNone, 2);
  std::vector<unsigned char> output = right_output(s, 0);
  const auto half = static_cast<std::ptrdiff_t>(output.size() / 2);
  std::rotate(output.begin(), output.begin() + half, output.end());
  EXPECT_GT(wrong(s, 0, output), s.shape.receive / 2);
  const Setting scatter = make(find_collective("reduce_scatter"), "float", Op::kSum, 2);
  EXPECT_GT(wrong(scatter, 0, right_output(scatter, 1)), scatter.shape.receive / 2);
}

TEST(CountWrong, TakesNanForWrong) {
  const Setting s = make(find_collective("all_reduce"), "float", Op::kSum, 2);
  std::vector<unsigned char> output = right_output(s, 0);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  s.input.type->store(&nan, 1, output.data());
  EXPECT_EQ(wrong(s, 0, output), 1u);
}

TEST(CountWrong, KnowsEveryOperation) {
  const Op ops[] = {Op::kSum, Op::kProd, Op::kMax, Op::kMin, Op::kAvg, Op::kMulSum};
  for (const Op op : ops) {
    const Setting s = make(find_collective("all_reduce"), "int32", op, 3);
    std::vector<double> terms[3];
    for (int rank = 0; rank < 3; ++rank) {
      terms[rank].resize(50);
      fill_input(s.input, rank, 0, 50, terms[rank].data());
    }
    std::vector<double> expected(50);
    expected_output(s.collective, s.shape, s.input, s.seat(0), 0, 50, expected.data());
    for (std::size_t k = 0; k < 50; ++k) {
      const double a = terms[0][k];
      const double b = terms[1][k];
      const double c = terms[2][k];
      const double right = op == Op::kSum    ? a + b + c
                           : op == Op::kProd ? a * b * c
                           : op == Op::kMax  ? std::max({a, b, c})
                           : op == Op::kMin  ? std::min({a, b, c})
                           : op == Op::kAvg  ? std::trunc((a + b + c) / 3)
                                             : a + 2 * b + c;
      EXPECT_EQ(expected[k], right);
    }
  }
}

TEST(MeasureError, CountsEveryElementOnceOverTheRanks) {
  for (const char* name : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall"}) {
    const Collective* const collective = &find_collective(name);
    const Op op = collective->reduces() ? Op::kSum : Op::kNone;
    Setting s = make(*collective, "float", op, 3);
    s.input.kind = InputKind::kGauss;
    SquaredError sums;
    double norm = 0;
    for (int rank = 0; rank < 3; ++rank) {
      std::vector<double> exact(s.shape.receive);
      expected_output(*collective, s.shape, s.input, s.seat(rank), 0, exact.size(), exact.data());
      if (rank == 0 || !collective->same_everywhere) {
        for (const double value : exact) norm += value * value;
      }
      for (double& value : exact) value *= 1.01;
      std::vector<unsigned char> output(exact.size() * s.input.type->bytes);
      s.input.type->store(exact.data(), exact.size(), output.data());
      const SquaredError part =
          measure_error(*collective, s.shape, s.input, s.seat(rank), output.data());
      sums.error += part.error;
      sums.norm += part.norm;
    }
    EXPECT_NEAR(sums.norm, norm, 1e-9 * norm);
    EXPECT_NEAR(relative_error(sums), 0.01, 1e-6);
  }
}

TEST(RelativeError, OfAZeroResult) {
  EXPECT_EQ(relative_error({0, 0}), 0);
  EXPECT_TRUE(std::isinf(relative_error({1, 0})));
  EXPECT_TRUE(std::isnan(relative_error({std::nan(""), 1})));
}

TEST(Checksum, ChangesWithEveryByte) {
  std::vector<unsigned char> data(37, 5);
  const std::uint64_t whole = checksum(data.data(), data.size());
  EXPECT_EQ(checksum(data.data(), data.size()), whole);
  EXPECT_NE(checksum(data.data(), data.size() - 1), whole);
  for (unsigned char& byte : data) {
    byte ^= 1;
    EXPECT_NE(checksum(data.data(), data.size()), whole);
    byte ^= 1;
  }
}

}  // namespace
}  // namespace terse::perf
