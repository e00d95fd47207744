// Random numbers: the oracle's, and reproducible: the same key gives the same bytes, any other key
// others.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "support.h"

namespace terse::codec {
namespace {

// Random123 1.14, tests/kat_vectors, philox4x32 7.
TEST(Draw, PhiloxKnownAnswers) {
  const PhiloxWords zeros = philox(0, 0, {{0, 0, 0, 0}});
  const PhiloxWords ones = philox(~0u, ~0u, {{~0u, ~0u, ~0u, ~0u}});
  const PhiloxWords pi =
      philox(0xa4093822, 0x299f31d0, {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}});
  const uint32_t answers[3][4] = {{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48},
                                  {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662},
                                  {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(zeros.w[i], answers[0][i]);
    EXPECT_EQ(ones.w[i], answers[1][i]);
    EXPECT_EQ(pi.w[i], answers[2][i]);
  }
}

TEST(Draw, NumbersAsTheOracle) {
  Random random(61);
  for (int repeat = 0; repeat < 20000; ++repeat) {
    const Stream s{.seed = random.next(),
                   .communicator = random.below(100),
                   .sequence = random.next() >> random.below(64),
                   .rank = static_cast<uint32_t>(random.next()),
                   .shard = static_cast<uint32_t>(random.below(1 << 24)),
                   .stage = static_cast<uint32_t>(random.below(256)),
                   .variate = static_cast<uint32_t>(random.below(4))};
    const uint64_t e = random.next() >> random.below(64);
    const PhiloxWords words = draw_group(draw_of(s), e / kElementsPerDraw);
    ASSERT_EQ(draw_bits(words, e), oracle::random16(s, e)) << "element " << e;
  }
}

// By each variate an element has each number as often, whatever the other element of its word has.
TEST(Draw, VariatesAreUniform) {
  for (const Variate variate :
       {Variate::kOwn, Variate::kMirrored, Variate::kDoubled, Variate::kShifted}) {
    const Draw draw = make_draw({.variate = variate});
    for (const uint32_t other : {0u, 1u, 0x7fffu, 0x8000u, 0xffffu}) {
      std::vector<int> times(1 << 16);
      for (uint32_t r = 0; r < 1 << 16; ++r) {
        const uint32_t both[] = {other << 16 | r, (other ^ 0x8000) << 16 | r};
        for (const uint32_t word : both) ++times[draw_bits(vary({{word, 0, 0, 0}}, draw), 0)];
      }
      ASSERT_EQ(std::ranges::count(times, 2), 1 << 16);
    }
  }
}

// Sums of contributors' numbers, in units of 2^-16: those of a pair are the same, and those of
// three but for a bit.
TEST(Draw, PartnersAddUpToTheSame) {
  const auto bits = [](Variate variate, uint64_t element) {
    return int{element_bits(make_draw({.seed = 5, .variate = variate}), element)};
  };
  using enum Variate;
  for (uint64_t e = 0; e < 10'000; ++e) {
    ASSERT_EQ(bits(kOwn, e) + bits(kMirrored, e), 65535);
    const int three = bits(kOwn, e) + bits(kDoubled, e) + bits(kShifted, e);
    ASSERT_TRUE(three == 98303 || three == 98302) << three;
  }
}

TEST(Draw, UniformIsTheCentreOfItsInterval) {
  for (uint32_t r : {0u, 1u, 32767u, 32768u, 65535u})
    EXPECT_EQ(uniform(static_cast<uint16_t>(r)), (r + 0.5) / 65536);
}

std::string encoded(Kind kind, const Stream& stream) {
  const Bytes body = encode(make_spec(kind, 4, 128), stream, Dtype::kFloat32,
                            oracle::to_memory(Dtype::kFloat32, gaussian(1000, 62)));
  return {body.begin(), body.end()};
}

TEST(Draw, EveryPartOfTheKeyMatters) {
  for (Kind kind : kIntegerKinds) {
    std::set<std::string> seen;
    const std::function<void(Stream&)> changes[] = {
        [](Stream&) {},
        [](Stream& s) { s.seed = 1; },
        [](Stream& s) { s.seed = uint64_t{1} << 63; },
        [](Stream& s) { s.communicator = 1; },
        [](Stream& s) { s.sequence = 1; },
        [](Stream& s) { s.sequence = uint64_t{1} << 32; },
        [](Stream& s) { s.rank = 1; },
        [](Stream& s) { s.shard = 1; },
        [](Stream& s) { s.stage = 1; },
        [](Stream& s) { s.origin = 32; },
        [](Stream& s) { s.origin = uint64_t{1} << 35; },
        [](Stream& s) { s.variate = 1; },
        [](Stream& s) { s.variate = 2; },
        [](Stream& s) { s.variate = 3; }};
    for (const auto& change : changes) {
      Stream stream;
      change(stream);
      EXPECT_EQ(encoded(kind, stream), encoded(kind, stream));
      seen.insert(encoded(kind, stream));
    }
    const size_t expected = kind.rounding == Rounding::kNearest ? 1 : std::size(changes);
    EXPECT_EQ(seen.size(), expected) << describe(make_spec(kind, 4, 128));
  }
}

}  // namespace
}  // namespace terse::codec
