#include "input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

namespace terse::perf {
namespace {

constexpr std::size_t kCount = 3000;

std::vector<double> values_of(const Input& input, int rank, std::size_t first = 0,
                              std::size_t count = kCount) {
  std::vector<double> values(count);
  fill_input(input, rank, first, count, values.data());
  return values;
}

double rounded(const DataType& type, double value) {
  std::array<unsigned char, 8> element;
  type.store(&value, 1, element.data());
  type.load(element.data(), 1, &value);
  return value;
}

TEST(Input, RoundedIsWhatIsSent) {
  for (const InputKind kind : {InputKind::kExact, InputKind::kGauss, InputKind::kUniform})
    for (const DataType& type : data_types())
      for (const std::size_t first : {0, 1, 4093}) {  // whichever of four neighbours comes first
        const Input input = {kind, &type, Op::kSum, 3, 5, {}};
        std::vector<double> found(kCount);
        fill_input_rounded(input, 2, first, kCount, found.data());
        for (std::size_t k = 0; k < kCount; ++k) {
          double alone = 0;
          fill_input(input, 2, first + k, 1, &alone);
          ASSERT_EQ(found[k], rounded(type, alone)) << type.name << " at " << first + k;
        }
      }
}

// Sums in one order, rounding every partial sum to the type, as an implementation might.
double sum_in_order(const DataType& type, const std::vector<std::vector<double>>& terms,
                    std::size_t element, std::size_t start) {
  double sum = 0;
  for (std::size_t k = 0; k < terms.size(); ++k) {
    sum = rounded(type, sum + terms[(start + k) % terms.size()][element]);
  }
  return sum;
}

TEST(ExactInput, SumsAreExactInEveryTypeAndOrder) {
  for (const DataType& type : data_types()) {
    for (const int nranks : {1, 2, 3, 4, 7, 8, 64}) {
      const Input input = {InputKind::kExact, &type, Op::kSum, nranks, 1, {}};
      std::vector<std::vector<double>> terms;
      for (int rank = 0; rank < nranks; ++rank) terms.push_back(values_of(input, rank, 0, 200));
      for (std::size_t e = 0; e < 200; ++e) {
        double exact = 0;
        for (const auto& rank : terms) exact += rank[e];
        EXPECT_EQ(sum_in_order(type, terms, e, 0), exact) << type.name << " " << nranks;
        EXPECT_EQ(sum_in_order(type, terms, e, terms.size() / 2), exact) << type.name;
      }
    }
  }
}

TEST(ExactInput, DiffersBetweenRanksElementsAndSeeds) {
  const DataType& type = find_data_type("float");
  const Input input = {InputKind::kExact, &type, Op::kSum, 4, 1, {}};
  Input other = input;
  other.seed = 2;
  EXPECT_NE(values_of(input, 0), values_of(input, 1));
  EXPECT_NE(values_of(input, 0), values_of(input, 0, 1));
  EXPECT_NE(values_of(input, 0), values_of(other, 0));
  EXPECT_EQ(values_of(input, 2), values_of(input, 2));
}

TEST(ExactInput, AnAverageByThreeRoundsTheSameBeforeAndAfter) {
  for (const char* name : {"float", "half", "bfloat16"}) {
    const DataType& type = find_data_type(name);
    const Input input = {InputKind::kExact, &type, Op::kAvg, 3, 1, {}};
    const double third = rounded(type, 1.0 / 3);
    for (std::size_t e = 0; e < 100; ++e) {
      double before = 0;
      double sum = 0;
      for (int rank = 0; rank < 3; ++rank) {
        const double value = values_of(input, rank, e, 1)[0];
        before = rounded(type, before + rounded(type, value * third));
        sum += value;
      }
      EXPECT_NE(sum, 0);
      EXPECT_EQ(before, rounded(type, sum / 3)) << name;
    }
  }
}

TEST(ExactInput, ProductsStaySmall) {
  const DataType& type = find_data_type("int8");
  const Input input = {InputKind::kExact, &type, Op::kProd, 64, 1, {}};
  for (std::size_t e = 0; e < 100; ++e) {
    double product = 1;
    for (int rank = 0; rank < 64; ++rank) product *= values_of(input, rank, e, 1)[0];
    EXPECT_LE(std::fabs(product), 8);
    EXPECT_GE(std::fabs(product), 1);
  }
}

TEST(ExactInput, IsNotNegativeForUnsignedTypes) {
  for (const Op op : {Op::kSum, Op::kProd, Op::kMax, Op::kMin, Op::kAvg, Op::kMulSum}) {
    const Input input = {InputKind::kExact, &find_data_type("uint8"), op, 3, 1, {}};
    for (const double value : values_of(input, 1)) EXPECT_GE(value, 0);
  }
}

TEST(GaussInput, HasMeanZeroAndDeviationOne) {
  const Input input = {InputKind::kGauss, &find_data_type("float"), Op::kSum, 4, 1, {}};
  const std::vector<double> values = values_of(input, 1, 0, 200000);
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double square = 0;
  double fourth = 0;
  for (const double value : values) {
    square += value * value / n;
    fourth += value * value * value * value / n;
  }
  EXPECT_NEAR(mean, 0, 0.01);
  EXPECT_NEAR(square, 1, 0.02);
  EXPECT_NEAR(fourth, 3, 0.15);
}

TEST(UniformInput, FillsItsRange) {
  const Input input = {InputKind::kUniform, &find_data_type("float"), Op::kSum, 4, 1, {}};
  for (const double value : values_of(input, 0)) {
    EXPECT_GE(value, -1);
    EXPECT_LT(value, 1);
  }
}

class InputFilesTest : public testing::Test {
 protected:
  InputFilesTest() {
    char name[] = "/tmp/terse-input-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~InputFilesTest() override { std::filesystem::remove_all(directory_); }

  void write(int rank, const std::vector<float>& values) const {
    std::ofstream file(directory_ + "/r" + std::to_string(rank), std::ios::binary);
    file.write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(float)));
  }

  std::string directory_;
};

TEST_F(InputFilesTest, AreReadByRank) {
  write(0, {1, 2, 3});
  write(1, {4, 5.5F, 6});
  const Input input = {InputKind::kFile,
                       &find_data_type("float"),
                       Op::kSum,
                       2,
                       0,
                       open_input_files(directory_ + "/r{rank}", 2)};
  EXPECT_EQ(values_of(input, 1, 1, 2), (std::vector<double>{5.5, 6}));
}

TEST_F(InputFilesTest, MustBeThereAndAlike) {
  write(0, {1, 2, 3});
  EXPECT_THROW(open_input_files(directory_ + "/r{rank}", 2), std::runtime_error);
  write(1, {1, 2});
  EXPECT_THROW(open_input_files(directory_ + "/r{rank}", 2), std::runtime_error);
  write(1, {});
  EXPECT_THROW(open_input_files(directory_ + "/r{rank}", 2), std::runtime_error);
}

}  // namespace
}  // namespace terse::perf
