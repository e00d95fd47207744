#include "types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

#include "size.h"
#include "small_float.h"

namespace terse::perf {
namespace {

TEST(ParseSize, ReadsSuffixes) {
  EXPECT_EQ(ParseSize("8"), 8u);
  EXPECT_EQ(ParseSize("1K"), 1024u);
  EXPECT_EQ(ParseSize("64M"), 64u << 20);
  EXPECT_EQ(ParseSize("64m"), 64u << 20);
  EXPECT_EQ(ParseSize("1G"), 1u << 30);
  EXPECT_EQ(ParseSize("2T"), std::size_t{2} << 40);
  EXPECT_EQ(ParseSize("1.5M"), 3u << 19);
  EXPECT_EQ(ParseSize("0"), 0u);
}

TEST(ParseSize, RefusesAnythingElse) {
  for (const char* text :
       {"", "K", "-1", "1KB", "1 K", "1e3", "0x10", "1.2.3", ".", "99999999T", "nan", "M1"}) {
    EXPECT_THROW(ParseSize(text), std::invalid_argument) << text;
  }
}

template <typename Format>
void RoundTripsEveryPattern() {
  for (std::uint32_t bits = 0; bits < 1u << Format::kBits; ++bits) {
    const double value = Format::Decode(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Format::Decode(Format::Encode(value))));
    } else {
      ASSERT_EQ(Format::Encode(value), bits) << value;
    }
  }
}

TEST(SmallFloat, RoundTripsEveryPattern) {
  RoundTripsEveryPattern<Float16>();
  RoundTripsEveryPattern<Bfloat16>();
  RoundTripsEveryPattern<Float8E4M3>();
  RoundTripsEveryPattern<Float8E5M2>();
}

// Between any two neighbours: below the middle down, above up, the middle itself to the even one.
template <typename Format>
void RoundsToNearestEven() {
  for (std::uint32_t bits = 0;; ++bits) {
    const double low = Format::Decode(bits);
    const double high = Format::Decode(bits + 1);
    if (!std::isfinite(high)) break;
    const double middle = (low + high) / 2;
    EXPECT_EQ(Format::Encode(std::nextafter(middle, low)), bits);
    EXPECT_EQ(Format::Encode(std::nextafter(middle, high)), bits + 1);
    EXPECT_EQ(Format::Encode(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(Format::Encode(-middle), Format::kSign | (bits % 2 == 0 ? bits : bits + 1));
  }
}

TEST(SmallFloat, RoundsToNearestEven) {
  RoundsToNearestEven<Float16>();
  RoundsToNearestEven<Bfloat16>();
  RoundsToNearestEven<Float8E4M3>();
  RoundsToNearestEven<Float8E5M2>();
}

TEST(SmallFloat, KnowsItsLimits) {
  EXPECT_EQ(Float16::Decode(0x7bff), 65504);
  EXPECT_EQ(Float16::Encode(65519.9), 0x7bffu);
  EXPECT_EQ(Float16::Encode(65520), 0x7c00u);
  EXPECT_EQ(Float8E4M3::Decode(0x7e), 448);
  EXPECT_TRUE(std::isnan(Float8E4M3::Decode(Float8E4M3::Encode(1e9))));
  EXPECT_EQ(Float8E5M2::Decode(0x7b), 57344);
  EXPECT_EQ(Bfloat16::Encode(std::numeric_limits<double>::infinity()), 0x7f80u);
}

TEST(DataTypes, StoreAndLoadWholeNumbersExactly) {
  for (const DataType& type : DataTypes()) {
    std::vector<double> values;
    for (int i = type.is_signed ? -type.exact : 0; i <= type.exact; ++i) values.push_back(i);
    std::vector<unsigned char> elements(values.size() * type.bytes + 1);
    std::vector<double> back(values.size());
    type.store(values.data(), values.size(), elements.data() + 1);  // any alignment
    type.load(elements.data() + 1, values.size(), back.data());
    EXPECT_EQ(values, back) << type.name;
  }
}

TEST(DataTypes, AreFoundByBothNames) {
  EXPECT_EQ(FindDataType("bfloat16").nccl, ncclBfloat16);
  EXPECT_EQ(&FindDataType("bf16"), &FindDataType("bfloat16"));
  EXPECT_THROW(FindDataType("float32"), std::invalid_argument);
  EXPECT_EQ(FindOperation("avg").nccl, ncclAvg);
  EXPECT_THROW(FindOperation("average"), std::invalid_argument);
}

}  // namespace
}  // namespace terse::perf
