// Every table of block operations that this processor runs gives the same bytes.
#include <gtest/gtest.h>

#include "codec/host_ops.h"
#include "isa_tables.h"
#include "learned_levels.h"
#include "memory_check.h"
#include "support.h"
#include "trials.h"

namespace terse::codec {
namespace {

class EveryIsa : public testing::TestWithParam<const HostOps*> {
 protected:
  void SetUp() override {
    if (!processor_runs(*GetParam())) GTEST_SKIP();
  }
};

const float* usual_codebook(const Spec& spec) {
  return descriptor(spec.codec).codebook ? uniform_codebook(spec.bits) : nullptr;
}

size_t code_bytes(const Spec& spec) { return spec.bits <= 8 ? 1 : 2; }

// The transform is a stage of its own.
std::vector<Spec> untransformed(size_t block) {
  std::vector<Spec> specs = every_spec(block);
  std::erase_if(specs, [](const Spec& spec) { return spec.hadamard != 0; });
  return specs;
}

// A few blocks through quantize and pack; their body. Of a shared grid in parts.
Bytes encode_blocks(const HostOps& ops, const Spec& spec, const Stream& stream, Dtype dtype,
                    const Bytes& memory, size_t offset, const float* codebook = nullptr) {
  if (codebook == nullptr) codebook = usual_codebook(spec);
  const size_t n = memory.size() / dtype_size(dtype);
  const BodyLayout layout = body_layout(spec, n);
  Guarded in(memory, offset), codes(n * code_bytes(spec), offset), body(layout.code_bytes, offset),
      params(layout.params_end - layout.params_offset, offset);
  uint8_t* const out = spec.bits <= 8 ? codes.data() : body.data();
  const auto quantize = [&](Part part) {
    ops.codecs[index_of(spec.codec)]
        .quantize[static_cast<int>(part)][static_cast<int>(dtype)][static_cast<int>(spec.rounding)](
            in.data(), n, spec, draw_of(stream), stream.origin, out, params.data(), codebook);
  };
  if (shares_grid(descriptor(spec.codec))) {
    quantize(Part::kParams);
    quantize(Part::kCodes);
  } else {
    quantize(Part::kAll);
  }
  if (spec.bits <= 8) ops.pack[spec.bits](codes.data(), n, body.data());
  EXPECT_TRUE(codes.intact() && body.intact() && params.intact());
  Bytes result = body.content(), tail = params.content();
  result.resize(layout.params_offset);
  result.insert(result.end(), tail.begin(), tail.end());
  result.resize(layout.size);
  return result;
}

// And back, through unpack and dequantize: to user memory, or twice over to fp32 sums and then
// stored.
Bytes decode_blocks(const HostOps& ops, const Spec& spec, const Bytes& body, size_t n, Dtype dtype,
                    size_t offset, bool twice, const float* codebook = nullptr) {
  if (codebook == nullptr) codebook = usual_codebook(spec);
  Guarded in(body, offset), unpacked(n, offset), x(4 * n), out(n * dtype_size(dtype), offset);
  const uint8_t* params = in.data() + body_layout(spec, n).params_offset;
  const uint8_t* codes = in.data();
  if (spec.bits <= 8) {
    ops.unpack[spec.bits](in.data(), n, unpacked.data());
    codes = unpacked.data();
  }
  const CodecOps& codec = ops.codecs[index_of(spec.codec)];
  if (twice) {
    codec.dequantize[static_cast<int>(Dtype::kFloat32)](codes, n, spec, params, 1.0f, x.data(),
                                                        codebook);
    codec.dequantize_add(codes, n, spec, params, 1.0f, x.data(), codebook);
    ops.store[static_cast<int>(dtype)](reinterpret_cast<const float*>(x.data()), n, out.data());
  } else {
    codec.dequantize[static_cast<int>(dtype)](codes, n, spec, params, 1.0f, out.data(), codebook);
  }
  EXPECT_TRUE(unpacked.intact() && x.intact() && out.intact());
  return out.content();
}

TEST_P(EveryIsa, BlocksAsTheOracle) {
  const HostOps& ops = *GetParam();
  Random random(21);
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (const Spec& spec : untransformed(32 * (1 + random.below(32)))) {
      for (int kin = 0; kin < kKins; ++kin) {
        for (Dtype dtype : kAllDtypes) {
          const size_t sizes[] = {1, 31, 32, 33, 127, 128, 211, 1024};
          const size_t n = sizes[random.below(8)], offset = random.below(8);
          SCOPED_TRACE(describe(spec) + " " + name_of(dtype) + " count " + std::to_string(n) +
                       " offset " + std::to_string(offset));
          const uint64_t before = 32 * random.below(1000);  // element 2^35, or after the first
          const uint64_t origin = random.below(2) == 0 ? before : (uint64_t{1} << 35) - before;
          const Stream stream{.seed = random.next(), .origin = origin};
          const Bytes memory = oracle::to_memory(dtype, numbers(static_cast<Kin>(kin), n, random));
          const Bytes body = oracle::encode(spec, stream, oracle::from_memory(dtype, memory));
          ASSERT_EQ(encode_blocks(ops, spec, stream, dtype, memory, offset), body);
          const Input input{body, std::nullopt};
          ASSERT_EQ(decode_blocks(ops, spec, body, n, dtype, offset, false),
                    oracle::to_memory(dtype, sum(spec, n, {input}, 1)));
          ASSERT_EQ(decode_blocks(ops, spec, body, n, dtype, offset, true),
                    oracle::to_memory(dtype, sum(spec, n, {input, input}, 1)));
        }
      }
    }
  }
}

// Also with other levels than the usual ones.
TEST_P(EveryIsa, LearnedLevels) {
  Random random(27);
  for_each_learned(4, 32, random, [&](const Spec& spec, const Floats& table) {
    for (int kin = 0; kin < kKins; ++kin) {
      for (Dtype dtype : kAllDtypes) {
        const size_t n = 1 + random.below(600);
        SCOPED_TRACE(describe(spec) + " " + name_of(dtype) + " count " + std::to_string(n));
        const Stream stream{.seed = random.next()};
        const Bytes memory = oracle::to_memory(dtype, numbers(static_cast<Kin>(kin), n, random));
        const Bytes body = oracle::encode(spec, stream, oracle::from_memory(dtype, memory));
        ASSERT_EQ(encode_blocks(*GetParam(), spec, stream, dtype, memory, 0, table.data()), body);
        const Input input{body, std::nullopt};
        ASSERT_EQ(decode_blocks(*GetParam(), spec, body, n, dtype, 0, false, table.data()),
                  oracle::to_memory(dtype, sum(spec, n, {input}, 1)));
        ASSERT_EQ(decode_blocks(*GetParam(), spec, body, n, dtype, 0, true, table.data()),
                  oracle::to_memory(dtype, sum(spec, n, {input, input}, 1)));
      }
    }
  });
}

// What lies on a level or in the middle of two: levels of which all that is exact.
TEST_P(EveryIsa, LearnedTies) {
  for (const Spec& spec : every_spec(1024)) {
    if (!descriptor(spec.codec).codebook) continue;
    const int levels = 1 << spec.bits;
    Floats level, x;
    for (int i = 0; i < levels; ++i)
      level.push_back(static_cast<float>(i) / static_cast<float>(levels));
    for (int k = 0; k <= 2 * levels; ++k) x.push_back(static_cast<float>(k));
    const oracle::WithLevels told(level);
    const Bytes memory = oracle::to_memory(Dtype::kFloat32, x);
    EXPECT_EQ(encode_blocks(*GetParam(), spec, {}, Dtype::kFloat32, memory, 0,
                            table_of(spec.bits, level).data()),
              oracle::encode(spec, {}, x))
        << describe(spec);
  }
}

// All fp16 and bf16 there are, in blocks of neighbours and in blocks of anything, NaN among them:
// the statistics are taken of their bits.
TEST_P(EveryIsa, EveryHalf) {
  const HostOps& ops = *GetParam();
  Random random(25);
  int specs = 0;  // of which sanitizers have the time for some
  for (Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    for (bool shuffled : {false, true}) {
      std::vector<uint16_t> halves(65536);
      for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
      for (size_t i = halves.size() - 1; shuffled && i > 0; --i)
        std::swap(halves[i], halves[random.below(i + 1)]);
      Bytes memory(2 * halves.size());
      std::memcpy(memory.data(), halves.data(), memory.size());
      const Floats x = oracle::from_memory(dtype, memory);
      for (const Spec& spec : untransformed(32)) {
        if (specs++ % test::trials(1, 7) != 0) continue;
        SCOPED_TRACE(describe(spec) + " " + name_of(dtype) + (shuffled ? " shuffled" : ""));
        const Bytes body = oracle::encode(spec, {.seed = 1}, x);
        ASSERT_EQ(encode_blocks(ops, spec, {.seed = 1}, dtype, memory, 1), body);
        ASSERT_EQ(decode_blocks(ops, spec, body, halves.size(), dtype, 1, false),
                  oracle::to_memory(dtype, oracle::decode(spec, body, halves.size())));
      }
    }
  }
}

// Bodies that no encoder wrote: whatever their parameters, every table gives the same values, and
// none writes another NaN than the canonical one.
TEST_P(EveryIsa, AnyParameters) {
  Random random(26);
  const float parameters[] = {-1.0f, -0.0f,           0x1p-149f, -0x1p-130f, 0x1p-118f,
                              1e-3f, 0x1.fffffep127f, -3e38f,    INFINITY,   -INFINITY,
                              NAN,   65504.0f,        65520.0f,  3.4e38f};
  for (CodecId codec : {kSymmetric, kMinMax}) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
      const Spec spec = make_spec({codec, Rounding::kNearest}, bits, 64);
      for (float first : parameters) {
        for (float second : parameters) {
          Bytes body(body_size(spec, 64));
          for (uint8_t& byte : body) byte = random.next() & 0xFF;
          const float wire[] = {first, second};
          const size_t bytes = params_bytes(spec);
          std::memcpy(body.data() + body.size() - bytes, wire, bytes);
          for (Dtype dtype : kAllDtypes) {
            SCOPED_TRACE(describe(spec) + " " + name_of(dtype) + " parameters " +
                         std::to_string(first) + ", " + std::to_string(second));
            const Bytes memory = decode_blocks(*GetParam(), spec, body, 64, dtype, 1, false);
            ASSERT_EQ(memory, decode_blocks(baseline::kOps, spec, body, 64, dtype, 1, false));
            ASSERT_EQ(memory, oracle::to_memory(dtype, oracle::from_memory(dtype, memory)));
          }
        }
      }
    }
  }
}

TEST_P(EveryIsa, LoadAndScale) {
  Random random(22);
  for (Dtype dtype : kAllDtypes) {
    for (size_t n : {0, 1, 15, 16, 17, 100, 4096}) {
      const Floats a = numbers(Kin::kWide, n, random);
      const Bytes memory = oracle::to_memory(dtype, numbers(Kin::kWide, n, random));
      const Floats b = oracle::from_memory(dtype, memory);
      Guarded in(memory, n % 4);
      Floats loaded(n), added = a, scaled = a;
      GetParam()->load[static_cast<int>(dtype)](in.data(), n, loaded.data());
      GetParam()->load_add[static_cast<int>(dtype)](in.data(), n, added.data());
      GetParam()->scale(0.3f, n, scaled.data());
      EXPECT_EQ(loaded, b);
      for (size_t i = 0; i < n; ++i) {
        EXPECT_EQ(added[i], oracle::add(a[i], b[i]));
        EXPECT_EQ(scaled[i], oracle::mul(a[i], 0.3f));
      }
    }
  }
}

// Also what it leaves over. Forth with any NaN, as it is encoded then.
TEST_P(EveryIsa, TransformsAsTheOracle) {
  const Spec spec{.bits = 4, .hadamard = kHadamard};
  Random random(28);
  for (size_t n : {0, 1, 31, 32, 37, 64, 95, 1023}) {
    for (bool nans : {false, true}) {
      Bytes memory = oracle::to_memory(Dtype::kFloat32, numbers(Kin::kGaussian, n, random));
      for (size_t i = 0; nans && i < n; i += 1 + random.below(64))
        put_bits(memory, n - 1 - i, kOtherNans[random.below(std::size(kOtherNans))]);
      const Floats x = oracle::from_memory(Dtype::kFloat32, memory);
      for (bool back : {false, true}) {
        SCOPED_TRACE(std::to_string(n) + (nans ? " with NaNs" : "") + (back ? " back" : ""));
        Guarded in(memory, 1), out(4 * n, 2), own(memory, 3);
        GetParam()->hadamard[back](n, in.data(), out.data());
        GetParam()->hadamard[back](n, own.data(), own.data());
        EXPECT_TRUE(out.intact() && own.intact());
        const Bytes expected = oracle::to_memory(
            Dtype::kFloat32, back ? oracle::restored(spec, x) : oracle::transformed(spec, x));
        for (const Guarded& result : {std::cref(out), std::cref(own)}) {
          const Bytes with_one_nan = oracle::to_memory(
              Dtype::kFloat32, oracle::from_memory(Dtype::kFloat32, result.content()));
          ASSERT_EQ(back ? result.content() : with_one_nan, expected);
        }
      }
    }
  }
}

TEST_P(EveryIsa, ChecksAsTheOracle) {
  Random random(23);
  for (size_t words : {8, 9, 10, 23, 24, 25, 40, 1000}) {
    Bytes packed(4 * words);
    for (uint8_t& byte : packed) byte = random.next() & 0xFF;
    std::fill_n(packed.begin() + 24, 8, 0);
    Guarded memory(packed, words % 4);
    const uint64_t head = GetParam()->check_packed(memory.data(), 8, 0);
    EXPECT_EQ(head + GetParam()->check_packed(memory.data() + 32, words - 8, 8),
              oracle::check(packed));
    const uint64_t first = words << 30;
    EXPECT_EQ(GetParam()->see(memory.data(), words, first, {}).sum,
              memory_check(packed.data(), packed.size(), first));
  }
}

TEST_P(EveryIsa, PackIgnoresHighBitsAndUnpackClearsThem) {
  Random random(24);
  for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
    for (size_t n = 0; n < 140; ++n) {
      Bytes codes(n), low(n);
      for (size_t i = 0; i < n; ++i) {
        codes[i] = random.next() & 0xFF;
        low[i] = codes[i] & ((1 << bits) - 1);
      }
      Guarded packed((n * bits + 7) / 8), unpacked(n);
      GetParam()->pack[bits](codes.data(), n, packed.data());
      GetParam()->unpack[bits](packed.data(), n, unpacked.data());
      ASSERT_TRUE(packed.intact() && unpacked.intact()) << bits << " bits, " << n << " codes";
      ASSERT_EQ(unpacked.content(), low) << bits << " bits, " << n << " codes";
    }
  }
}

// Of codes so far apart that the next number of heads would merge them otherwise. Past 2^35
// elements a second word of the counter goes on.
TEST_P(EveryIsa, MergesByEachElementsOwnRandomNumber) {
  constexpr size_t kCount = (1 << 20) + 5;
  constexpr uint32_t kSmaller = 20;
  const Draw draw = draw_of({.seed = 3, .rank = 6, .shard = 7});
  for (const uint64_t first : {uint64_t{0}, (uint64_t{1} << 35) - 32 * 999})
    for (const uint32_t opposite : {0, 1}) {
      Bytes a(kCount), b(kCount), wanted(kCount);
      for (size_t i = 0; i < kCount; ++i) {
        const PhiloxWords words = draw_group(draw, (first + i) / kElementsPerDraw);
        const auto heads = static_cast<Tiny>(heads_in_a_row(draw_bits(words, i)));
        a[i] = static_cast<uint8_t>(kSmaller + heads + opposite + i % 2);
        b[i] = static_cast<uint8_t>(kSmaller | opposite << 7);
        wanted[i] = static_cast<uint8_t>(Exponential::merge(a[i], b[i], heads));
      }
      Guarded merged(kCount);
      GetParam()->codecs[index_of(Exponential::kDescriptor.id)].merge[static_cast<int>(
          Rounding::kStochastic)](a.data(), b.data(), kCount, draw, first, merged.data());
      ASSERT_TRUE(merged.intact());
      ASSERT_EQ(merged.content(), wanted);
    }
}

std::vector<const HostOps*> tables() {
  return {&baseline::kOps,
#ifdef TERSE_X86_LEVELS
          &x86_64_v3::kOps, &x86_64_v4::kOps
#endif
  };
}

INSTANTIATE_TEST_SUITE_P(Isa, EveryIsa, testing::ValuesIn(tables()),
                         [](const auto& table) { return std::string(table.param->isa); });

}  // namespace
}  // namespace terse::codec
