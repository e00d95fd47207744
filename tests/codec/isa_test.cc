// Every table of block operations that this processor runs gives the same bytes.
#include <gtest/gtest.h>

#include "codec/host_ops.h"
#include "support.h"

namespace terse::codec {

namespace baseline {
extern const HostOps kOps;
}
#ifdef TERSE_X86_LEVELS
namespace x86_64_v3 {
extern const HostOps kOps;
}
namespace x86_64_v4 {
extern const HostOps kOps;
}
#endif

namespace {

class EveryIsa : public testing::TestWithParam<const HostOps*> {
 protected:
  void SetUp() override {
#ifdef TERSE_X86_LEVELS
    const HostOps* ops = GetParam();
    const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    const bool v4 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if ((ops == &x86_64_v3::kOps && !v3) || (ops == &x86_64_v4::kOps && !v4)) GTEST_SKIP();
#endif
  }
};

// One block through load, quantize and pack; its body.
Bytes encode_block(const HostOps& ops, const Spec& spec, const Stream& stream, Dtype dtype,
                   const Bytes& memory, size_t offset) {
  const size_t n = memory.size() / dtype_size(dtype);
  Guarded in(memory, offset), x(4 * n), codes(n, offset), body(body_size(spec, n), offset);
  float params[2] = {};
  ops.load[static_cast<int>(dtype)](in.data(), n, reinterpret_cast<float*>(x.data()));
  ops.quantize[static_cast<int>(spec.family) - 1][static_cast<int>(spec.rounding)](
      reinterpret_cast<const float*>(x.data()), n, spec.bits, draw_of(stream), stream.origin,
      codes.data(), params);
  std::fill_n(body.data(), body.size(), 0);
  ops.pack[spec.bits](codes.data(), n, body.data());
  std::memcpy(body.data() + body_layout(spec, n).params_offset, params,
              4 * params_per_block(spec.family));
  EXPECT_TRUE(x.intact() && codes.intact() && body.intact());
  return body.content();
}

// And back, through unpack, dequantize and store; twice over when adding.
Bytes decode_block(const HostOps& ops, const Spec& spec, const Bytes& body, size_t n, Dtype dtype,
                   size_t offset, bool twice) {
  Guarded codes(n, offset), x(4 * n), out(n * dtype_size(dtype), offset);
  float params[2] = {};
  std::memcpy(params, body.data() + body_layout(spec, n).params_offset,
              4 * params_per_block(spec.family));
  Guarded in(body, offset);
  ops.unpack[spec.bits](in.data(), n, codes.data());
  const int family = static_cast<int>(spec.family) - 1;
  float* values = reinterpret_cast<float*>(x.data());
  ops.dequantize[family](codes.data(), n, spec.bits, params, values);
  if (twice) ops.dequantize_add[family](codes.data(), n, spec.bits, params, values);
  ops.store[static_cast<int>(dtype)](values, n, out.data());
  EXPECT_TRUE(codes.intact() && x.intact() && out.intact());
  return out.content();
}

TEST_P(EveryIsa, BlocksAsTheOracle) {
  const HostOps& ops = *GetParam();
  Random random(21);
  for (Kind kind : kAllKinds) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
      for (int kin = 0; kin < kKins; ++kin) {
        const size_t sizes[] = {1, 31, 32, 33, 127, 128, 211, 1024};
        const size_t n = sizes[random.below(8)], offset = random.below(4);
        const Dtype dtype = kAllDtypes[random.below(3)];
        const Spec spec = make_spec(kind, bits, (n + 31) / 32 * 32);
        SCOPED_TRACE(describe(spec) + " " + name_of(dtype) + " count " + std::to_string(n));
        const Stream stream{.seed = random.next(), .origin = 32 * random.below(1000)};
        const Bytes memory = oracle::to_memory(dtype, numbers(static_cast<Kin>(kin), n, random));
        const Bytes body = oracle::encode(spec, stream, oracle::from_memory(dtype, memory));
        ASSERT_EQ(encode_block(ops, spec, stream, dtype, memory, offset), body);
        const Input input{body, std::nullopt};
        ASSERT_EQ(decode_block(ops, spec, body, n, dtype, offset, false),
                  oracle::to_memory(dtype, sum(spec, n, {input}, 1)));
        ASSERT_EQ(decode_block(ops, spec, body, n, dtype, offset, true),
                  oracle::to_memory(dtype, sum(spec, n, {input, input}, 1)));
      }
    }
  }
}

TEST_P(EveryIsa, AddAndScale) {
  Random random(22);
  for (size_t n : {0, 1, 15, 16, 17, 100, 4096}) {
    const Floats a = numbers(Kin::kWide, n, random), b = numbers(Kin::kWide, n, random);
    Floats added = a, scaled = a;
    GetParam()->add(b.data(), n, added.data());
    GetParam()->scale(0.3f, n, scaled.data());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(added[i], oracle::add(a[i], b[i]));
      EXPECT_EQ(scaled[i], oracle::mul(a[i], 0.3f));
    }
  }
}

TEST_P(EveryIsa, CheckAsTheOracle) {
  Random random(23);
  for (size_t words : {8, 9, 10, 23, 24, 25, 40, 1000}) {
    Bytes packed(4 * words);
    for (uint8_t& byte : packed) byte = random.next() & 0xFF;
    std::fill_n(packed.begin() + 24, 8, 0);
    Guarded memory(packed, words % 4);
    const uint64_t head = GetParam()->check(memory.data(), 8, 0);
    EXPECT_EQ(head + GetParam()->check(memory.data() + 32, words - 8, 8), oracle::check(packed));
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
