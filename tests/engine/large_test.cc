// Messages past 2^31 bytes, where memory allows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

size_t available_bytes() {
  return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

using Block = std::array<uint16_t, 128>;

// Those that hold nothing but 0, 1, 2 ..., as bf16.
const std::vector<Block> kBlocks = [] {
  std::vector<Block> blocks(121);
  for (size_t i = 0; i < blocks.size(); ++i) {
    const float x = static_cast<float>(i);
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    blocks[i].fill(static_cast<uint16_t>(bits >> 16));
  }
  return blocks;
}();

// Calls step(block, its first element, its elements).
template <class Step>
void each_block(size_t count, const Step& step) {
  for (size_t first = 0; first < count; first += Block{}.size())
    step(first / Block{}.size(), first, std::min(Block{}.size(), count - first));
}

TEST(Large, AllReducePastTwoGibibytes) {
  const size_t count = (size_t{1} << 30) + 12'345;  // bf16: 2 GiB and some
  if (available_bytes() < 4 * count + (size_t{3} << 30)) GTEST_SKIP() << "not enough memory";
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int8"));
    // Blocks of constant small integers: every step is exact.
    std::vector<uint16_t> data(count);
    const auto number = [](size_t block, int k) { return (block * 7 + 3 * k) % 61; };
    each_block(count, [&](size_t block, size_t first, size_t n) {
      std::memcpy(&data[first], kBlocks[number(block, rank)].data(), n * sizeof(uint16_t));
    });
    ASSERT_EQ(terseAllReduce(data.data(), data.data(), count, ncclBfloat16, ncclSum, scheme.get(),
                             comm, nullptr),
              ncclSuccess)
        << terseGetLastError();
    size_t wrong = 0;
    each_block(count, [&](size_t block, size_t first, size_t n) {
      const Block& sum = kBlocks[number(block, 0) + number(block, 1)];
      wrong += std::memcmp(&data[first], sum.data(), n * sizeof(uint16_t)) != 0;
    });
    EXPECT_EQ(wrong, 0u);
    terseCommRelease(comm);
  });
}

}  // namespace
}  // namespace terse::test
