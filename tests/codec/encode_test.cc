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
          .shard = static_cast<uint32_t>(random.below(1 << 24)),
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

// By its place in the list.
class EveryCodec : public testing::TestWithParam<size_t> {
 protected:
  static std::vector<Spec> specs(size_t block) {
    std::vector<Spec> own = every_spec(block);
    std::erase_if(own, [](const Spec& s) { return index_of(s.codec) != GetParam(); });
    return own;
  }
};

TEST_P(EveryCodec, SameBytesAsOracle) {
  Random random(1 + GetParam());
  for (int repeat = 0; repeat < 3; ++repeat) {
    for (const Spec& spec : specs(some_block(random))) {
      for (Dtype dtype : kAllDtypes) {
        for (int kin = 0; kin < kKins; ++kin) {
          expect_same({spec, dtype, static_cast<Kin>(kin), some_count(spec.block, random),
                       random.below(4), some_stream(random)},
                      random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(EveryCodec, EveryCountAboutABlock) {
  Random random(99);
  for (const Spec& spec : specs(64)) {
    for (size_t count = 0; count <= 131; ++count) {
      expect_same({spec, Dtype::kFloat32, Kin::kGaussian, count, 0, some_stream(random)}, random);
      if (HasFatalFailure()) return;
    }
  }
}

// Every code may arrive, also those that an encoder never writes; and any parameter, but that an
// absmax is not negative.
TEST_P(EveryCodec, DecodesAnything) {
  Random random(7);
  for (const Spec& spec : specs(32)) {
    Bytes body(body_size(spec, 1000));
    for (uint8_t& byte : body) byte = random.next() & 0xFF;
    if (spec.codec == kSymmetric || shares_grid(descriptor(spec.codec))) {
      const BodyLayout layout = body_layout(spec, 1000);
      const size_t bytes = params_bytes(spec);
      for (size_t i = layout.params_offset; i < layout.params_end; i += bytes)
        body[i + bytes - 1] &= 0x7F;
    }
    for (Dtype dtype : kAllDtypes) {
      EXPECT_EQ(decode(spec, body, 1000, dtype),
                oracle::to_memory(dtype, oracle::decode(spec, body, 1000)))
          << describe(spec) << " " << name_of(dtype);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Encode, EveryCodec, testing::Range(size_t{0}, Codecs::kSize),
                         [](const testing::TestParamInfo<size_t>& codec) {
                           const Descriptor& d = kDescriptors[codec.param];
                           return std::string(d.name) + (d.fit == Fit::kMse ? "_mse" : "");
                         });

TEST(Encode, EveryValueOfTheSmallTypes) {
  for (Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    Bytes memory;
    for (int bits = 0; bits < 65536; ++bits) {
      memory.push_back(static_cast<uint8_t>(bits));
      memory.push_back(static_cast<uint8_t>(bits >> 8));
    }
    for (const Spec& spec : every_spec(128)) {
      EXPECT_EQ(encode(spec, {}, dtype, memory),
                oracle::encode(spec, {}, oracle::from_memory(dtype, memory)))
          << describe(spec) << " " << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace terse::codec
