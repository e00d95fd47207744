// Presets: what they compress, and that ranks have the same results by them.
#include "policy/presets.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "codec/codec.h"
#include "policy/policy.h"

namespace terse {
namespace {

using plan::Collective;

constexpr int kRanks = 4;

Policy parse(std::string_view line) { return parse_policy_line(line, 64 * 1024); }

// The scheme of a call of 1 GiB; null: it stays native.
const Scheme* scheme_of(const Policy& policy, Collective collective, ncclDataType_t type) {
  return policy.decide({collective, size_t{1} << 30, type, ncclSum, kRanks}).scheme;
}

TEST(Presets, AreRulesForTheCollectivesThatTheyName) {
  EXPECT_EQ(parse("qsdp").print(),
            "allgather dtype=float32 -> off; "
            "allgather shard=64K.. -> minmax8:block=1024,round=shift; "
            "allreduce,reducescatter "
            "shard=64K.. -> minmax8:block=1024,round=stochastic");
  EXPECT_EQ(parse("reducescatter bytes=1M.. -> fast").print(),
            "reducescatter bytes=1M.. -> int4:block=64,round=stochastic,scale=bf16");
  EXPECT_EQ(parse("cgx").print(),
            "allreduce shard=64K.. -> minmax4:block=1024,round=stochastic; "
            "allgather,reducescatter -> off");
  const Policy p = parse("allgather -> off; qsdp; int4");
  EXPECT_EQ(scheme_of(p, Collective::kReduceScatter, ncclFloat32), &p.rules[3].scheme);
  EXPECT_EQ(p.rules[3].preset, "qsdp");
}

// Programs compute from what they gather in fp32 what all ranks must agree on.
TEST(Presets, GatherFp32NativelyAnd16BitsAlikeOnAllRanks) {
  for (const Preset& preset : presets()) {
    if (preset.fp32_name.empty()) continue;
    const Policy p = parse(preset.name);
    EXPECT_EQ(scheme_of(p, Collective::kAllGather, ncclFloat32), nullptr) << preset.name;
    for (const ncclDataType_t half : {ncclFloat16, ncclBfloat16}) {
      const Scheme* const scheme = scheme_of(p, Collective::kAllGather, half);
      ASSERT_NE(scheme, nullptr) << preset.name;
      EXPECT_FALSE(scheme->delta.own_exact) << preset.name;
    }
  }
}

TEST(Presets, HaveVariantsThatGatherFp32) {
  EXPECT_EQ(parse("safe-fsdp32").print(),
            "allgather shard=64K.. -> minmax8:block=128,round=shift,own=exact; "
            "allreduce,reducescatter shard=64K.. -> "
            "int8:block=64,round=stochastic,scale=bf16");
  for (const Preset& preset : presets()) {
    if (preset.fp32_name.empty()) continue;
    ASSERT_NE(find_preset(preset.fp32_name), nullptr);
    const Policy p = parse(preset.fp32_name);
    for (const ncclDataType_t type : {ncclFloat32, ncclFloat16, ncclBfloat16}) {
      const Scheme* const scheme = scheme_of(p, Collective::kAllGather, type);
      ASSERT_NE(scheme, nullptr) << preset.fp32_name;
      EXPECT_TRUE(scheme->delta.own_exact) << preset.fp32_name;
    }
    const Policy plain = parse(preset.name);
    EXPECT_EQ(*scheme_of(p, Collective::kAllReduce, ncclFloat32),
              *scheme_of(plain, Collective::kAllReduce, ncclFloat32))
        << preset.name;
  }
}

TEST(Presets, AreForTheTypesOfTheirRule) {
  EXPECT_EQ(parse("allgather dtype=fp16,bf16 -> safe").print(),
            "allgather dtype=float16,bfloat16 shard=64K.. -> minmax8:block=128,round=shift");
  EXPECT_EQ(parse("allgather dtype=fp32,bf16 -> safe").print(),
            "allgather dtype=float32 -> off; "
            "allgather dtype=float32,bfloat16 shard=64K.. -> minmax8:block=128,round=shift");
  EXPECT_EQ(parse("dtype=fp32 -> safe").print(),
            "allgather dtype=float32 -> off; "
            "allreduce,reducescatter dtype=float32 shard=64K.. -> "
            "int8:block=64,round=stochastic,scale=bf16");
}

// The gradients of a layer's gains, and its biases', a thousand times smaller.
TEST(Presets, KeepWhatIsSmallBehindWhatIsLarge) {
  constexpr size_t kWidth = 64;
  std::vector<float> gradients(2 * kWidth), decoded(2 * kWidth);
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = normal(random) * (i < kWidth ? 1.0f : 1e-3f);
  for (const auto& [preset, limit] : {std::pair("safe", 0.02), std::pair("fast", 0.3)}) {
    const Policy p = parse(preset);
    const codec::Spec spec = scheme_of(p, Collective::kAllReduce, ncclFloat32)->spec;
    std::vector<uint8_t> body(codec::body_size(spec, gradients.size()));
    const codec::Source raw{gradients.data(), codec::Dtype::kFloat32}, packed{body.data(), spec};
    codec::combine({.sources = {&raw, 1},
                    .target = {body.data(), spec, codec::make_draw({})},
                    .total = gradients.size(),
                    .count = gradients.size()});
    codec::combine({.sources = {&packed, 1},
                    .target = {decoded.data(), codec::Dtype::kFloat32},
                    .total = gradients.size(),
                    .count = gradients.size()});
    double error = 0, square = 0;
    for (size_t i = kWidth; i < gradients.size(); ++i) {
      error += std::pow(decoded[i] - gradients[i], 2);
      square += std::pow(gradients[i], 2);
    }
    EXPECT_LT(std::sqrt(error / square), limit) << preset;
  }
}

TEST(Presets, EachIsWhatTheCodecsServe) {
  for (const Preset& preset : presets()) {
    EXPECT_EQ(find_preset(preset.name), &preset);
    EXPECT_EQ(preset.parts.back().collectives, 0u) << preset.name << " leaves none out";
    for (const PresetPart& part : preset.parts)
      EXPECT_TRUE(parse_scheme(part.scheme).off || codec::valid(parse_scheme(part.scheme).spec));
    EXPECT_THROW(parse_scheme(preset.name), Error) << "no scheme has a preset's name";
  }
  EXPECT_EQ(find_preset("unsafe"), nullptr);
}

TEST(Presets, AreNoSchemesAndSayWhichTheyHave) {
  try {
    parse_scheme("safe");
    ADD_FAILURE() << "a scheme";
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidArgument);
    EXPECT_EQ(
        e.message,
        "scheme \"safe\": a preset has a scheme for each collective, and is for rules; of this "
        "one: minmax8:block=128,round=shift for "
        "allgather,alltoall,broadcast,gather,scatter,sendrecv; "
        "int8:block=64,round=stochastic,scale=bf16 for all else");
  }
}

}  // namespace
}  // namespace terse
