// fp16 and bf16 conversions against exact arithmetic, through the codec's loads and stores.
#include <gtest/gtest.h>

#include <bit>

#include "codec/host_ops.h"
#include "support.h"

namespace terse::codec {
namespace {

uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }

void expect_stored_alike(const Floats& x, Dtype dtype) {
  Bytes stored(x.size() * dtype_size(dtype));
  host_ops().store[static_cast<int>(dtype)](x.data(), x.size(), stored.data());
  const Bytes expected = oracle::to_memory(dtype, x);
  for (size_t i = 0; i < stored.size(); ++i) {
    ASSERT_EQ(stored[i], expected[i])
        << name_of(dtype) << " of 0x" << std::hex << bits_of(x[i / dtype_size(dtype)]);
  }
}

TEST(Float16, WidensEveryValue) {
  for (Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    std::vector<uint16_t> in(65536);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
    Floats out(in.size());
    host_ops().load[static_cast<int>(dtype)](in.data(), in.size(), out.data());
    for (uint32_t i = 0; i < in.size(); ++i) {
      const float expected = oracle::widen(dtype, i);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(out[i])) << name_of(dtype) << " 0x" << std::hex << i;
      } else {
        ASSERT_EQ(bits_of(out[i]), bits_of(expected)) << name_of(dtype) << " 0x" << std::hex << i;
      }
    }
  }
}

// Each value of a small type comes back; so do its neighbours and the ties about it, as fp32.
TEST(Float16, NarrowsAboutEveryValue) {
  for (Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    Floats x;
    const uint32_t tie = dtype == Dtype::kFloat16 ? 1u << 12 : 1u << 15;
    for (uint32_t i = 0; i < 65536; ++i) {
      const uint32_t value = bits_of(oracle::widen(dtype, i));
      for (uint32_t near : {value, value + 1, value - 1, value + tie, value + tie + 1,
                            value + tie - 1, value - tie})
        x.push_back(std::bit_cast<float>(near));
    }
    expect_stored_alike(x, dtype);
  }
}

// Subnormal fp16 results have ties elsewhere: odd multiples of 2^-25.
TEST(Float16, NarrowsSubnormals) {
  Floats x;
  for (int n = -2100; n <= 2100; ++n) {
    for (float nudge : {0.0f, 0x1p-40f, -0x1p-40f})
      x.push_back(static_cast<float>(n) * 0x1p-25f * (1 + nudge) + nudge);
  }
  expect_stored_alike(x, Dtype::kFloat16);
}

TEST(Float16, NarrowsAllExponents) {
  Random random(31);
  Floats x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 8191 + random.below(8192))
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (Dtype dtype : kAllDtypes) expect_stored_alike(x, dtype);
}

}  // namespace
}  // namespace terse::codec
