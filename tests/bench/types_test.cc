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
  EXPECT_EQ(parse_size("8"), 8u);
  EXPECT_EQ(parse_size("1K"), 1024u);
  EXPECT_EQ(parse_size("64M"), 64u << 20);
  EXPECT_EQ(parse_size("64m"), 64u << 20);
  EXPECT_EQ(parse_size("1G"), 1u << 30);
  EXPECT_EQ(parse_size("2T"), std::size_t{2} << 40);
  EXPECT_EQ(parse_size("1.5M"), 3u << 19);
  EXPECT_EQ(parse_size("128MB"), 128u << 20);
  EXPECT_EQ(parse_size("4KiB"), 4096u);
  EXPECT_EQ(parse_size("0"), 0u);
}

TEST(ParseSize, RefusesAnythingElse) {
  for (const char* text : {"", "K", "-1", "8B", "1KX", "1MBB", "1 K", "1e3", "0x10", "1.2.3", ".",
                           "99999999T", "nan", "M1"}) {
    EXPECT_THROW(parse_size(text), std::invalid_argument) << text;
  }
}

template <typename Format>
void round_trips_every_pattern() {
  for (std::uint32_t bits = 0; bits < 1u << Format::kBits; ++bits) {
    const double value = Format::decode(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Format::decode(Format::encode(value))));
    } else {
      ASSERT_EQ(Format::encode(value), bits) << value;
    }
  }
}

TEST(SmallFloat, RoundTripsEveryPattern) {
  round_trips_every_pattern<Float16>();
  round_trips_every_pattern<Bfloat16>();
  round_trips_every_pattern<Float8E4M3>();
  round_trips_every_pattern<Float8E5M2>();
}

// Between any two neighbours: below the middle down, above up, the middle itself to the even one.
template <typename Format>
void rounds_to_nearest_even() {
  for (std::uint32_t bits = 0;; ++bits) {
    const double low = Format::decode(bits);
    const double high = Format::decode(bits + 1);
    if (!std::isfinite(high)) break;
    const double middle = (low + high) / 2;
    EXPECT_EQ(Format::encode(std::nextafter(middle, low)), bits);
    EXPECT_EQ(Format::encode(std::nextafter(middle, high)), bits + 1);
    EXPECT_EQ(Format::encode(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(Format::encode(-middle), Format::kSign | (bits % 2 == 0 ? bits : bits + 1));
  }
}

TEST(SmallFloat, RoundsToNearestEven) {
  rounds_to_nearest_even<Float16>();
  rounds_to_nearest_even<Bfloat16>();
  rounds_to_nearest_even<Float8E4M3>();
  rounds_to_nearest_even<Float8E5M2>();
}

TEST(SmallFloat, KnowsItsLimits) {
  EXPECT_EQ(Float16::decode(0x7bff), 65504);
  EXPECT_EQ(Float16::encode(65519.9), 0x7bffu);
  EXPECT_EQ(Float16::encode(65520), 0x7c00u);
  EXPECT_EQ(Float8E4M3::decode(0x7e), 448);
  EXPECT_TRUE(std::isnan(Float8E4M3::decode(Float8E4M3::encode(1e9))));
  EXPECT_EQ(Float8E5M2::decode(0x7b), 57344);
  EXPECT_EQ(Bfloat16::encode(std::numeric_limits<double>::infinity()), 0x7f80u);
}

TEST(DataTypes, StoreAndLoadWholeNumbersExactly) {
  for (const DataType& type : data_types()) {
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
  EXPECT_EQ(find_data_type("bfloat16").nccl, ncclBfloat16);
  EXPECT_EQ(&find_data_type("bf16"), &find_data_type("bfloat16"));
  EXPECT_THROW(find_data_type("float32"), std::invalid_argument);
  EXPECT_EQ(find_operation("avg").nccl, ncclAvg);
  EXPECT_THROW(find_operation("average"), std::invalid_argument);
}

}  // namespace
}  // namespace terse::perf
