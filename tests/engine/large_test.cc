// Messages past 2^31 bytes, where memory allows.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

size_t available_bytes() {
  return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Large, AllReducePastTwoGibibytes) {
  const size_t count = (size_t{1} << 30) + 12'345;  // bf16: 2 GiB and some
  if (available_bytes() < 4 * count + (size_t{3} << 30)) GTEST_SKIP() << "not enough memory";
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int8"));
    // Blocks of constant small integers: every step is exact.
    std::vector<uint16_t> data(count);
    const auto value = [](size_t i, int k) {
      const float x = static_cast<float>((i / 128 * 7 + 3 * k) % 61);
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      return static_cast<uint16_t>(bits >> 16);
    };
    const auto sum = [](size_t i) {
      const float x = static_cast<float>((i / 128 * 7) % 61 + (i / 128 * 7 + 3) % 61);
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      return static_cast<uint16_t>(bits >> 16);
    };
    for (size_t i = 0; i < count; ++i) data[i] = value(i, rank);
    ASSERT_EQ(terseAllReduce(data.data(), data.data(), count, ncclBfloat16, ncclSum, scheme.get(),
                             comm, nullptr),
              ncclSuccess)
        << terseGetLastError();
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) wrong += data[i] != sum(i);
    EXPECT_EQ(wrong, 0u);
    terseCommRelease(comm);
  });
}

}  // namespace
}  // namespace terse::test
