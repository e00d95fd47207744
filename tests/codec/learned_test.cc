// Learned codecs with levels of their own: bytes against the oracle, what is said of middles, and
// what such levels are good for.
#include <gtest/gtest.h>

#include <cstring>

#include "learned_levels.h"

namespace terse::codec {
namespace {

Spec learned(int bits, Rounding rounding = Rounding::kNearest, size_t block = 128) {
  return {Learned::kDescriptor.id, rounding, static_cast<uint8_t>(bits),
          static_cast<uint16_t>(block)};
}

// For every width, rounding, and kind of number.
TEST(Learned, SameBytesAsOracle) {
  Random random(71);
  for_each_learned(6, 64, random, [&](const Spec& spec, const Floats& table) {
    for (int kin = 0; kin < kKins; ++kin) {
      const Dtype dtype = kAllDtypes[random.below(3)];
      const size_t n = random.below(3000), offset = random.below(4);
      SCOPED_TRACE(describe(spec) + " " + name_of(dtype) + " count " + std::to_string(n) + " kin " +
                   std::to_string(kin));
      const Stream stream{.seed = random.next(), .rank = 3, .origin = 32 * random.below(99)};
      const Bytes memory = oracle::to_memory(dtype, numbers(static_cast<Kin>(kin), n, random));
      const Bytes body = oracle::encode(spec, stream, oracle::from_memory(dtype, memory));
      ASSERT_EQ(encode(spec, stream, dtype, memory, offset, table.data()), body);
      const Dtype to = kAllDtypes[random.below(3)];
      ASSERT_EQ(decode(spec, body, n, to, offset, table.data()),
                oracle::to_memory(to, oracle::decode(spec, body, n)));
    }
  });
}

// Sources and target have one table; what is packed in another way has none.
TEST(Learned, Sums) {
  Random random(72);
  for (int repeat = 0; repeat < 100; ++repeat) {
    const int bits = kMinBits + static_cast<int>(random.below(7));
    const Spec spec = learned(bits, random.below(2) ? Rounding::kNearest : Rounding::kStochastic);
    const Spec other{.bits = 6};
    const Floats levels = some_levels(bits, random), table = table_of(bits, levels);
    const oracle::WithLevels told(levels);
    const size_t count = 1 + random.below(1000);
    const Spec from = random.below(2) ? spec : other, to = random.below(2) ? spec : other;
    std::vector<Input> inputs;
    std::vector<Source> sources;
    for (size_t i = 0; i < 3; ++i)
      inputs.push_back({oracle::encode(from, {.seed = i}, gaussian(count, i)), {}});
    for (const Input& input : inputs) sources.push_back({input.bytes.data(), from});
    SCOPED_TRACE(describe(from) + " to " + describe(to) + " count " + std::to_string(count));
    Guarded out(body_size(to, count));
    const Stream stream{.seed = 9, .rank = 1};
    combine({.sources = sources,
             .target = {out.data(), to, draw_of(stream)},
             .factor = 1.0f / 3,
             .total = count,
             .count = count,
             .codebook = table.data()});
    ASSERT_EQ(out.content(), encoded_sum(from, to, stream, count, inputs, 1.0f / 3));
  }
}

std::vector<int> codes_of(const Floats& x, const Floats& levels) {
  const Spec spec = learned(2, Rounding::kNearest, 32);
  const Bytes body = encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, x), 0,
                            table_of(2, levels).data());
  std::vector<int> codes;
  for (size_t i = 0; i < x.size(); ++i) codes.push_back(body[i / 4] >> 2 * (i % 4) & 3);
  return codes;
}

// The nearest level, and of two that are equally near the upper one.
TEST(Learned, TheMiddleGoesUp) {
  const Floats levels = {0, 0.25f, 0.5f, 1};
  EXPECT_EQ(codes_of({8, 16, 8.99f, 9, 9.01f, 10.99f, 11, 13.99f, 14}, levels),
            (std::vector<int>{0, 3, 0, 1, 1, 1, 2, 2, 3}));
  // Which levels nobody uses, and the same one twice.
  EXPECT_EQ(codes_of({8, 16, 9, 10, 11.9f, 12, 13, 15}, {0.5f, 0.5f, 0.5f, 0.75f}),
            (std::vector<int>{0, 3, 0, 0, 0, 2, 3, 3}));
}

// A block's ends are exact where the first level is 0 and the last one 1 and sums are; elements on
// a level stay there, whatever is drawn.
TEST(Learned, LevelsStay) {
  const Floats levels = {0, 0.125f, 0.25f, 1};
  const Floats table = table_of(2, levels);
  for (Rounding rounding : {Rounding::kNearest, Rounding::kStochastic}) {
    const Spec spec = learned(2, rounding);
    Floats x;
    for (size_t i = 0; i < 1280; ++i) x.push_back(-4 + 8 * levels[i % 4]);
    const Bytes memory = oracle::to_memory(Dtype::kFloat32, x);
    const Bytes body = encode(spec, {.seed = 5}, Dtype::kFloat32, memory, 0, table.data());
    EXPECT_EQ(decode(spec, body, x.size(), Dtype::kFloat32, 0, table.data()), memory);
  }
}

Floats round_trip_by(const Floats& table, const Spec& spec, const Floats& x) {
  const Bytes memory = oracle::to_memory(Dtype::kFloat32, x);
  const Bytes body = encode(spec, {.seed = 6}, Dtype::kFloat32, memory, 0, table.data());
  return oracle::from_memory(Dtype::kFloat32,
                             decode(spec, body, x.size(), Dtype::kFloat32, 0, table.data()));
}

// Between whichever levels an element lies.
TEST(Learned, StochasticIsUnbiased) {
  constexpr size_t kDraws = 4000, kPeriod = 32;
  for (int bits : {2, 3, 5, 8}) {
    const Floats block = gaussian(kPeriod, 57);
    Floats x;
    for (size_t draw = 0; draw < kDraws; ++draw) x.insert(x.end(), block.begin(), block.end());
    const Floats got = round_trip_by(table_of(bits, gaussian_levels(bits)),
                                     learned(bits, Rounding::kStochastic, kPeriod), x);
    for (size_t i = 0; i < kPeriod; ++i) {
      double mean = 0, square = 0;
      for (size_t k = i; k < x.size(); k += kPeriod) {
        const double error = double{got[k]} - x[k];
        mean += error / kDraws;
        square += error * error / kDraws;
      }
      EXPECT_LT(std::fabs(mean), 6 * std::sqrt(square / kDraws) + 1e-6 * std::fabs(block[i]))
          << bits << " bits, element " << i;
    }
  }
}

// Without a table it is min-max; with levels that suit what is encoded it is better. These are
// those of Lloyd's iteration for Gaussian blocks of 128, as far as two digits of them go.
TEST(Learned, LevelsThatSuitAreBetter) {
  const Floats x = gaussian(size_t{1} << 18, 53);
  const Floats min_max = round_trip(make_spec({kMinMax, Rounding::kNearest}, 4, 128), {}, x);
  const double uniform = relative_error(x, round_trip(learned(4), {}, x));
  EXPECT_NEAR(uniform / relative_error(x, min_max), 1, 1e-3);
  const Floats levels = {0.00f, 0.09f, 0.17f, 0.24f, 0.30f, 0.35f, 0.40f, 0.45f,
                         0.51f, 0.56f, 0.61f, 0.66f, 0.72f, 0.79f, 0.88f, 1.00f};
  EXPECT_NEAR(relative_error(x, round_trip_by(table_of(4, levels), learned(4), x)) / 0.092, 1,
              0.05);
}

TEST(Learned, TheUniformTable) {
  for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
    Floats levels;
    for (size_t i = 0; i < codebook_levels(bits); ++i) levels.push_back(uniform_level(i, bits));
    const Floats table = table_of(bits, levels);
    EXPECT_EQ(levels.front(), 0.0f);
    EXPECT_EQ(levels.back(), 1.0f);
    EXPECT_EQ(std::memcmp(uniform_codebook(bits), table.data(), codebook_bytes(bits)), 0);
  }
}

}  // namespace
}  // namespace terse::codec
