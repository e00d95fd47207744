// The implementation's bytes and values are the oracle's, for every scheme and element type.
#include <gtest/gtest.h>

#include "support.h"

namespace terse::codec {
namespace {

struct Case {
  Spec spec;
  Dtype dtype;
  Kin kin;
  size_t count;
  size_t offset;  // in bytes, from an aligned address
  Stream stream;
};

size_t some_block(Random& random) {
  const size_t usual[] = {32, 64, 96, 128, 1024, 2048, 4096};
  const size_t i = random.below(10);
  return i < 7 ? usual[i] : 32 * (1 + random.below(128));
}

size_t some_count(size_t block, Random& random) {
  const size_t usual[] = {0,
                          1,
                          2,
                          7,
                          31,
                          32,
                          33,
                          211,
                          block,
                          block - 1,
                          block + 1,
                          2 * block,
                          2 * block - 3,
                          2 * block + 5,
                          1009};
  const size_t i = random.below(19);
  return i < 15 ? usual[i] : random.below(i == 15 ? 5000 : 300);
}

Stream some_stream(Random& random) {
  return {.seed = random.next(),
          .communicator = random.below(4),
          .sequence = random.next() >> random.below(64),
          .rank = static_cast<uint32_t>(random.below(1000)),
          .piece = static_cast<uint32_t>(random.below(1 << 24)),
          .stage = static_cast<uint32_t>(random.below(2)),
          .origin = random.below(2) ? 0 : (random.next() >> random.below(60)) / 64 * 32};
}

void expect_same(const Case& c, Random& random) {
  SCOPED_TRACE(describe(c.spec) + " " + name_of(c.dtype) + " count " + std::to_string(c.count) +
               " kin " + std::to_string(static_cast<int>(c.kin)) + " offset " +
               std::to_string(c.offset));
  const Bytes memory = oracle::to_memory(c.dtype, numbers(c.kin, c.count, random));
  const Bytes expected = oracle::encode(c.spec, c.stream, oracle::from_memory(c.dtype, memory));
  ASSERT_EQ(encode(c.spec, c.stream, c.dtype, memory, c.offset), expected);
  ASSERT_EQ(body_size(c.spec, c.count), expected.size());

  const Dtype to = kAllDtypes[random.below(3)];
  const Bytes decoded = oracle::to_memory(to, oracle::decode(c.spec, expected, c.count));
  ASSERT_EQ(decode(c.spec, expected, c.count, to, c.offset), decoded);
}

class EveryKind : public testing::TestWithParam<Kind> {};

TEST_P(EveryKind, SameBytesAsOracle) {
  Random random(1 + static_cast<int>(GetParam().family) * 8 +
                static_cast<int>(GetParam().rounding));
  for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
    for (Dtype dtype : kAllDtypes) {
      for (int kin = 0; kin < kKins; ++kin) {
        for (int repeat = 0; repeat < 3; ++repeat) {
          const Spec spec = make_spec(GetParam(), bits, some_block(random));
          expect_same({spec, dtype, static_cast<Kin>(kin), some_count(spec.block, random),
                       random.below(4), some_stream(random)},
                      random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(EveryKind, EveryCountAboutABlock) {
  Random random(99);
  for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
    const Spec spec = make_spec(GetParam(), bits, 64);
    for (size_t count = 0; count <= 131; ++count) {
      expect_same({spec, Dtype::kFloat32, Kin::kGaussian, count, 0, some_stream(random)}, random);
      if (HasFatalFailure()) return;
    }
  }
}

// Every code may arrive, also the one that an encoder never writes; and any parameter, but that a
// peak is not negative.
TEST_P(EveryKind, DecodesAnything) {
  Random random(7);
  for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
    const Spec spec = make_spec(GetParam(), bits, 32);
    Bytes body(body_size(spec, 1000));
    for (uint8_t& byte : body) byte = random.next() & 0xFF;
    if (spec.family == Family::kSymmetric) {
      for (size_t i = body_layout(spec, 1000).params_offset; i < body.size(); i += 4)
        body[i + 3] &= 0x7F;
    }
    for (Dtype dtype : kAllDtypes) {
      EXPECT_EQ(decode(spec, body, 1000, dtype),
                oracle::to_memory(dtype, oracle::decode(spec, body, 1000)))
          << describe(spec) << " " << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Encode, EveryKind, testing::ValuesIn(kAllKinds),
                         [](const testing::TestParamInfo<Kind>& kind) {
                           const std::string name = describe(make_spec(kind.param, 0, 32));
                           return name.substr(0, name.find('0')) + "_" +
                                  name.substr(name.rfind('=') + 1);
                         });

TEST(Encode, EveryValueOfTheSmallTypes) {
  for (Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    Bytes memory;
    for (int bits = 0; bits < 65536; ++bits) {
      memory.push_back(static_cast<uint8_t>(bits));
      memory.push_back(static_cast<uint8_t>(bits >> 8));
    }
    for (Kind kind : kAllKinds) {
      const Spec spec = make_spec(kind, 5, 128);
      EXPECT_EQ(encode(spec, {}, dtype, memory),
                oracle::encode(spec, {}, oracle::from_memory(dtype, memory)))
          << describe(spec) << " " << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace terse::codec
