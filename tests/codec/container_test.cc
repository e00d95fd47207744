// Packed buffers: sealed as the oracle seals them, opened exactly when the oracle would.
#include "codec/container.h"

#include <gtest/gtest.h>

#include "support.h"

namespace terse::codec {
namespace {

Bytes seal_body(const Spec& spec, Dtype dtype, size_t count, const Bytes& body) {
  Guarded packed(container_size(spec, count));
  std::copy(body.begin(), body.end(), packed.data() + kHeaderBytes);
  seal({spec, dtype, count}, packed.data());
  EXPECT_TRUE(packed.intact());
  return packed.content();
}

Bytes some_packed(Random& random) {
  const Spec spec = some_spec(random, 32 * (1 + random.below(4)));
  const size_t count = random.below(4) ? random.below(200) : 0;
  return oracle::seal(spec, kAllDtypes[random.below(3)], count,
                      oracle::encode(spec, {}, gaussian(count, random.next())));
}

TEST(Container, NumbersOfExamplesAreFree) {
  for (const Descriptor& d : kDescriptors) EXPECT_LT(static_cast<int>(d.id), 240) << d.name;
}

TEST(Container, SealsAsTheOracle) {
  Random random(71);
  for (const Spec& spec : every_spec(32 * (1 + random.below(128)))) {
    for (Dtype dtype : kAllDtypes) {
      const size_t count = random.below(300);
      const Bytes body = oracle::encode(spec, {}, gaussian(count, random.next()));
      const Bytes packed = seal_body(spec, dtype, count, body);
      ASSERT_EQ(packed, oracle::seal(spec, dtype, count, body)) << describe(spec);

      Header header{};
      ASSERT_EQ(open(packed.data(), packed.size(), &header), nullptr);
      Spec recorded = spec;
      recorded.rounding = Rounding::kNearest;
      EXPECT_EQ(header.spec, recorded);
      EXPECT_EQ(header.dtype, dtype);
      EXPECT_EQ(header.count, count);
    }
  }
}

TEST(Container, SeesEveryFlippedBit) {
  Random random(72);
  for (int repeat = 0; repeat < 20; ++repeat) {
    Bytes packed = some_packed(random);
    for (size_t bit = 0; bit < 8 * packed.size(); ++bit) {
      packed[bit / 8] ^= 1 << bit % 8;
      Header header{};
      ASSERT_NE(open(packed.data(), packed.size(), &header), nullptr) << "bit " << bit;
      packed[bit / 8] ^= 1 << bit % 8;
    }
  }
}

TEST(Container, RefusesEveryOtherSize) {
  Random random(73);
  for (int repeat = 0; repeat < 20; ++repeat) {
    Bytes packed = some_packed(random);
    const size_t size = packed.size();
    packed.resize(size + 100);
    for (size_t bytes = 0; bytes <= packed.size(); ++bytes) {
      // Exactly as much memory as is announced.
      const Bytes part(packed.begin(), packed.begin() + bytes);
      Header header{};
      ASSERT_EQ(open(part.data(), bytes, &header) == nullptr, bytes == size) << bytes << " bytes";
    }
  }
}

// A header that is damaged and then sealed again: valid or not as section 6 has it.
TEST(Container, AcceptsWhatTheOracleAccepts) {
  Random random(74);
  int accepted = 0;
  for (int repeat = 0; repeat < 20000; ++repeat) {
    Bytes packed = some_packed(random);
    for (size_t damages = random.below(3); damages-- > 0;) {
      const uint8_t small[] = {0, 1, 2, 3, 6, 7, 8, 9, 32, 64, 128, 255};
      packed[random.below(24)] =
          random.below(2) ? small[random.below(12)] : static_cast<uint8_t>(random.next());
    }
    const uint64_t check = oracle::check(packed);
    std::memcpy(packed.data() + 24, &check, sizeof check);
    Header header{};
    const bool opened = open(packed.data(), packed.size(), &header) == nullptr;
    ASSERT_EQ(opened, oracle::acceptable(packed)) << "repeat " << repeat;
    accepted += opened;
  }
  EXPECT_GT(accepted, 5000);
  EXPECT_LT(accepted, 15000);
}

// Counts whose size in bytes exceeds 64 bits.
TEST(Container, RefusesAbsurdCounts) {
  for (uint64_t count : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{1} << 61, uint64_t{1} << 32}) {
    for (const Spec& spec : every_spec(32)) {
      const Bytes packed = oracle::seal(spec, Dtype::kFloat32, count, {});
      Header header{};
      EXPECT_NE(open(packed.data(), packed.size(), &header), nullptr);
    }
  }
}

}  // namespace
}  // namespace terse::codec
