// Exponential codes: the parts of an encoding, and codes that are merged (FORMAT.md, section 4,
// "Exponential" and "Merging").
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>

#include "codec/tree.h"
#include "on_shared_grid.h"
#include "oracle_formats.h"
#include "support.h"

namespace terse::codec {
namespace {

constexpr CodecId kExponential = Exponential::kDescriptor.id;

Spec exponential(int ranks, size_t block = 64, Rounding rounding = Rounding::kStochastic,
                 Number scale = Number::kFp32) {
  return {.codec = kExponential,
          .rounding = rounding,
          .bits = 8,
          .block = static_cast<uint16_t>(block),
          .scale = scale,
          .ranks = static_cast<uint16_t>(ranks)};
}

TEST(Exponential, PartsAndMergesAreTheOracles) {
  Random random(91);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t ranks = 1 + random.below(12), count = 1 + random.below(1400);
    const Spec spec = exponential(static_cast<int>(ranks), 32 * (1 + random.below(9)),
                                  random.below(2) ? Rounding::kNearest : Rounding::kStochastic,
                                  random.below(2) ? Number::kFp32 : Number::kBf16);
    std::vector<Floats> given;
    for (size_t r = 0; r < ranks; ++r)
      given.push_back(numbers(static_cast<Kin>(random.below(kKins)), count, random));
    Ranks all(spec, given);
    SCOPED_TRACE(describe(spec) + " count " + std::to_string(count) + " ranks " +
                 std::to_string(ranks));
    Floats wanted(count, 0);
    Bytes merged_codes(body_layout(spec, count).params_offset);  // and zeros up to a word
    for (size_t first = 0; first < count; first += spec.block) {
      const size_t n = std::min<size_t>(spec.block, count - first);
      std::vector<Floats> parts;
      float absmax = 0;
      for (const Floats& x : given) {
        parts.emplace_back(x.begin() + first, x.begin() + first + n);
        const float own = oracle::format(spec).encode(spec, {}, 0, parts.back()).params[0];
        if (std::isfinite(absmax)) absmax = std::isfinite(own) ? std::max(absmax, own) : own;
      }
      std::vector<std::vector<int>> codes;
      for (size_t r = 0; r < ranks; ++r) {
        const Stream stream{.rank = static_cast<uint32_t>(r)};
        codes.push_back(oracle::exponential_codes(spec, stream, first, parts[r], absmax));
        const Bytes got = all.codes(r);
        ASSERT_TRUE(std::equal(codes[r].begin(), codes[r].end(), got.begin() + first))
            << "rank " << r << " block at " << first;
      }
      for (size_t i = 0; i < n; ++i) {
        std::vector<int> of_element;
        for (const std::vector<int>& own : codes) of_element.push_back(own[i]);
        const int merged = oracle::merged_code(spec, {.stage = 1}, first + i, of_element);
        merged_codes[first + i] = static_cast<uint8_t>(merged);
        wanted[first + i] = oracle::format(spec).decode(spec, merged, {absmax}, 0.5f);
      }
    }
    const Floats got = all.sum(0.5f);
    ASSERT_EQ(all.codes(0), merged_codes);
    ASSERT_EQ(oracle::to_memory(Dtype::kFloat32, got), oracle::to_memory(Dtype::kFloat32, wanted));
    ASSERT_TRUE(all.intact());
  }
}

// An encoding in one go is that of its parts.
TEST(Exponential, OfOneRankIsAFormatLikeOthers) {
  const Floats x = gaussian(1000, 5);
  const Spec spec = exponential(1);
  const Ranks alone(spec, {x});
  Bytes wanted = alone.codes(0);
  const Bytes params = alone.params(0);
  wanted.insert(wanted.end(), params.begin(), params.end());
  EXPECT_EQ(encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, x)), wanted);
}

// How many of the 65536 random numbers make `heads` of each kind.
std::array<int, 17> counts_of_heads() {
  std::array<int, 17> counts{};
  for (int r = 0; r < 65536; ++r) ++counts.at(heads_in_a_row(static_cast<uint16_t>(r)));
  return counts;
}

TEST(Exponential, HeadsAreThoseOfACoin) {
  const std::array<int, 17> counts = counts_of_heads();
  for (int heads = 0; heads < 16; ++heads) EXPECT_EQ(counts[heads], 32768 >> heads);
  EXPECT_EQ(counts[16], 1);
}

int exponent_of(int code) { return code & 127; }

// Two codes that anybody writes.
template <class See>
void for_any_two(const See& see) {
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; ++b)
      if (a != 128 && b != 128) see(a, b);
}

int merge(int a, int b, int heads) {
  return Exponential::merge(static_cast<Tiny>(a), static_cast<Tiny>(b), static_cast<Tiny>(heads));
}

// Over all random numbers the sum of what a merge gives is 65536 times that of the operands: as
// integers, in units of a power of two. But of operands so far apart that 16 bits cannot say how
// rarely the smaller one counts the larger one stays; and so does one of the exponent 1, which has
// no headroom.
TEST(Exponential, MergesOfAnyTwoCodesAreUnbiased) {
  const std::array<int, 17> counts = counts_of_heads();
  for_any_two([&](int a, int b) {
    const int ea = exponent_of(a), eb = exponent_of(b), apart = std::abs(ea - eb);
    const bool opposite = (a ^ b) & 128, zero = ea == 0 || eb == 0;
    const bool far = !zero && apart - (opposite ? 1 : 0) > 16;
    const bool full = !zero && !opposite && std::min(ea, eb) == 1 && !far;
    if (full) {
      for (int heads = 0; heads <= 16; ++heads)
        ASSERT_EQ(merge(a, b, heads), (a & 128) + 1) << a << " and " << b;
      return;
    }
    const int larger = ea == 0 || (eb != 0 && eb < ea) ? b : a;
    const int least = far || zero ? exponent_of(larger) : std::max(ea, eb);
    const auto units = [&](int code) -> int64_t {
      const int64_t magnitude =
          exponent_of(code) == 0 ? 0 : int64_t{1} << (least - exponent_of(code));
      return (code & 128) != 0 ? -magnitude : magnitude;
    };
    int64_t total = 0;
    for (int heads = 0; heads <= 16; ++heads) total += counts[heads] * units(merge(a, b, heads));
    const int64_t sum = far ? units(larger) : units(a) + units(b);
    ASSERT_EQ(total, 65536 * sum) << a << " and " << b;
  });
}

// A tie leaves the larger one as it is.
TEST(Exponential, MergesToNearestAreOfTheNearestPower) {
  constexpr int kHeads = 0;
  const auto value = [](int code) {
    if (exponent_of(code) == 0) return 0.0;
    return std::ldexp((code & 128) != 0 ? -1.0 : 1.0, -exponent_of(code));
  };
  for_any_two([&](int a, int b) {
    if (exponent_of(a) == 1 && a == b) return;  // no headroom
    const auto off = [&](int code) { return std::fabs(value(code) - (value(a) + value(b))); };
    const int merged = merge(a, b, kHeads);
    for (int code = 0; code < 256; ++code) {
      ASSERT_LE(off(merged), off(code)) << a << " and " << b;
    }
    const int larger = std::fabs(value(a)) < std::fabs(value(b)) ? b : a;
    if (off(larger) == off(merged) && larger != 0) {
      ASSERT_EQ(merged, larger) << a << " and " << b;
    }
  });
}

// In the order of the tree: each merge once, with a number of its own, and no more on the stack
// than it has room for.
TEST(Tree, MergesNeighboursOfEqualSizeFirst) {
  for (uint32_t n = 1; n < 300; ++n) {
    struct Group {
      uint32_t begin, end, height;
    };
    std::vector<Group> stack;
    std::vector<bool> numbers(n);
    for (uint32_t i = 0; i < n; ++i) {
      stack.push_back({i, i + 1, 0});
      ASSERT_LE(stack.size(), kTreeDepth);
      for (uint32_t begin = i; is_merged(begin, i, n); begin = begin_before(begin)) {
        const Group second = stack.back();
        stack.pop_back();
        Group& first = stack.back();
        ASSERT_EQ(second.begin, begin);
        ASSERT_EQ(first.end, begin);
        const uint32_t length = first.end - first.begin;
        ASSERT_TRUE(std::has_single_bit(length) && first.begin % (2 * length) == 0);
        ASSERT_LE(second.end - second.begin, length);
        ASSERT_FALSE(numbers[begin]);
        numbers[begin] = true;
        first = {first.begin, second.end, std::max(first.height, second.height) + 1};
      }
    }
    ASSERT_EQ(stack.size(), 1u);
    ASSERT_EQ(stack[0].height, std::bit_width(n - 1));
  }
  // The deepest that there is.
  size_t height = 0, most = 0;
  for (uint32_t i = 0; i < 65535; ++i) {
    most = std::max(most, ++height);
    for (uint32_t begin = i; is_merged(begin, i, 65535); begin = begin_before(begin)) --height;
  }
  EXPECT_LE(most, kTreeDepth);
  EXPECT_EQ(height, 1u);
}

// All ranks have the largest elements: their merge has an exponent of 1 or more, and is right on
// average; exact of 2^k ranks.
TEST(Exponential, SumsOfTheLargestStayWithinTheCodes) {
  for (const size_t ranks : {1, 2, 3, 4, 5, 7, 8, 16, 64})
    for (const float absmax : {1.0f, 0.7f, 3e-30f, 1e36f})
      for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
        SCOPED_TRACE(std::to_string(ranks) + " ranks");
        Floats x(130);
        for (size_t i = 0; i < x.size(); ++i) x[i] = i % 3 == 1 ? -absmax : absmax;
        const int n = static_cast<int>(ranks);
        Ranks all(exponential(n, 64, rounding), std::vector<Floats>(ranks, x));
        const Floats got = all.sum();
        const Bytes codes = all.codes(0);
        double share = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          ASSERT_GE(codes[i] & 127, 1) << i;
          const float wanted = x[i] * static_cast<float>(ranks);
          if (std::has_single_bit(ranks)) {
            ASSERT_EQ(got[i], wanted) << i;
          }
          share += got[i] / wanted / static_cast<double>(x.size());
        }
        // To nearest, ties have lost what they were below.
        EXPECT_NEAR(share, 1, rounding == Rounding::kStochastic ? 0.15 : 0.45);
      }
}

// Elements beyond what bf16 can store as a parameter; and means of what is near the end of fp32,
// also where a merge has gone further than the sum.
TEST(Exponential, TheEndsOfFp32AreFinite) {
  for (const size_t ranks : {2, 3, 4, 5})
    for (const Number scale : {Number::kFp32, Number::kBf16}) {
      const Floats x(200, FLT_MAX);
      const float mean = 1.0f / static_cast<float>(ranks);
      const Spec spec = exponential(static_cast<int>(ranks), 64, Rounding::kStochastic, scale);
      Ranks all(spec, std::vector<Floats>(ranks, x));
      for (const float value : all.sum(mean)) {
        ASSERT_TRUE(std::isfinite(value));
        ASSERT_GE(value, FLT_MAX / 2);
      }
      // Where the sum is not finite, neither is it here.
      for (const float value : all.decoded()) {
        ASSERT_TRUE(std::isinf(value) || !std::has_single_bit(ranks));
      }
    }
}

// A merge goes up to twice as far as a sum that bf16 holds. The largest fp32 is infinite as bf16.
TEST(Exponential, TheEndsOfBf16AreFinite) {
  const float largest = bits_float(kLargestBf16Bits);
  for (const size_t ranks : {3, 5, 6})
    for (const float sign : {1.0f, -1.0f}) {
      const float part = sign * largest / static_cast<float>(ranks + 1);
      Ranks all(exponential(static_cast<int>(ranks)),
                std::vector<Floats>(ranks, Floats(200, part)));
      const Bytes memory = oracle::to_memory(Dtype::kBfloat16, all.sum());
      const Floats got = oracle::from_memory(Dtype::kBfloat16, memory);
      EXPECT_EQ(std::ranges::max(got, {}, magnitude), sign * largest) << ranks;
    }
}

TEST(Exponential, TheLargestFp32OfOneRankIsExact) {
  Ranks alone(exponential(1), {Floats(100, -FLT_MAX)});
  for (const float value : alone.sum()) EXPECT_EQ(value, -FLT_MAX);
}

TEST(Exponential, ZerosStayPositiveZeros) {
  Ranks all(exponential(3), std::vector<Floats>(3, Floats(100, -0.0f)));
  for (const float value : all.sum()) EXPECT_EQ(float_bits(value), 0u);
}

// What cancels is a positive zero, too.
TEST(Exponential, OppositesCancel) {
  Floats x(100, 0.5f), y(100, -0.5f);
  x[0] = y[0] = 1;
  Ranks all(exponential(2, 128), {x, y});
  const Floats got = all.sum();
  for (size_t i = 1; i < got.size(); ++i) EXPECT_EQ(float_bits(got[i]), 0u) << i;
}

TEST(Exponential, WhatIsNotFiniteOnOneRankIsNanInItsBlockForAll) {
  for (const Number scale : {Number::kFp32, Number::kBf16})
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      std::vector<Floats> given = gaussians(3, 300, 6);
      given[1][100] = bad;
      Ranks all(exponential(3, 64, Rounding::kStochastic, scale), given);
      const Floats got = all.sum();
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(std::isnan(got[i]), i / 64 == 100 / 64) << i;
    }
}

// What the paper's own simulation has: exponential dithering, merged in a tree.
TEST(Exponential, HasTheErrorOfGlobalQsgdWithOneScale) {
  const struct {
    size_t ranks;
    double error;
  } figures[] = {{4, 0.244}, {8, 0.337}, {16, 0.423}, {64, 0.622}};
  for (const auto& figure : figures) {
    const std::vector<Floats> given = gaussians(figure.ranks, 40'000, 7);
    const auto [got, absmax] = sum_on_one_scale(exponential(static_cast<int>(figure.ranks)), given);
    const double error = relative_square(got, exact_sum(given));
    EXPECT_NEAR(error / figure.error, 1, 0.03) << figure.ranks;
  }
}

// The mean over draws; ranks draw apart, and so do merges: of equal contributions errors do not add
// up.
TEST(Exponential, StochasticSumsAreUnbiasedAndAllDrawApart) {
  constexpr size_t kRanks = 4, kDraws = 16'384, kPeriod = 32;
  const Floats block = gaussian(kPeriod, 9);
  Floats x;
  for (size_t k = 0; k < kDraws; ++k) x.insert(x.end(), block.begin(), block.end());
  Ranks all(exponential(kRanks, kPeriod), std::vector<Floats>(kRanks, x));
  const Floats got = all.sum();
  for (size_t i = 0; i < kPeriod; ++i) {
    double mean = 0, square = 0;
    for (size_t k = i; k < x.size(); k += kPeriod) {
      const double error = got[k] - kRanks * double{x[k]};
      mean += error / kDraws;
      square += error * error / kDraws;
    }
    EXPECT_LT(std::fabs(mean), 5 * std::sqrt(square / kDraws) + 1e-4 * std::fabs(block[i])) << i;
    // Of a code p (1 - p) / (1 + p)^2 at most, which is 1/8, and 1/8 of each of two merges.
    EXPECT_LT(square, 0.45 * kRanks * kRanks * block[i] * block[i]) << i;
  }
}

TEST(Exponential, IsForAnyNumberOfRanks) {
  for (const int ranks : {1, 2, 127, 128, 4096, 65535})
    EXPECT_EQ(fault(exponential(ranks)), nullptr);
  EXPECT_STREQ(fault(exponential(0)), "it has no levels for so many ranks");
  for (const int ranks : {1, 2, 3, 4, 5, 8, 9, 16, 17, 32768, 32769, 65535})
    EXPECT_EQ(Exponential::headroom(form_of(exponential(ranks))),
              1u + static_cast<uint32_t>(std::bit_width(static_cast<unsigned>(ranks - 1))));
}

}  // namespace
}  // namespace terse::codec
