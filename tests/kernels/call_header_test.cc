// The comparison of calls: the kernel on the SIMT executor leaves what the host's loop does.
#include "codec/call_header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "cpu_kernels.h"
#include "simt/global_memory.h"

namespace terse::kernels {
namespace {

using codec::CallHeader;
using codec::HeaderWork;
using Stage = HeaderWork::Stage;

constexpr uint32_t kWarp = 32;

CallHeader header_of(uint32_t sender, uint32_t count) {
  return {{0x31535254, sender, 0, 0, 0xabcdef01, count, 0, 0}};
}

// What two stages leave, with what comes between them.
struct Left {
  std::vector<uint32_t> memory;
  codec::Mismatch report{};

  bool refuses() const { return memory[0] != 0; }
};

using Receive = std::function<void(CallHeader* received)>;
using Run = std::function<void(const HeaderWork&)>;

Left compare(uint32_t count, bool agreed, const Receive& receive, const Run& run) {
  const uint32_t slots = agreed ? 2 : count;
  Left left{.memory = std::vector<uint32_t>((2 + slots) * CallHeader::kWords, 0x77777777)};
  const simt::Memory memory(left.memory.data(), left.memory.size() * 4, simt::Access::kReadWrite,
                            "headers");
  const simt::Memory report(&left.report, sizeof left.report, simt::Access::kReadWrite, "report");
  HeaderWork work{.stage = Stage::kWrite,
                  .agreed = agreed,
                  .first = 0,
                  .count = slots,
                  .own = header_of(5, 100),
                  .memory = left.memory.data(),
                  .report = &left.report};
  run(work);
  EXPECT_EQ(left.memory[0], 0u);
  EXPECT_EQ(std::memcmp(&left.memory[CallHeader::kWords], &work.own, sizeof work.own), 0);
  receive(reinterpret_cast<CallHeader*>(&left.memory[2 * CallHeader::kWords]));
  work.stage = Stage::kCheck;
  work.count = count;
  run(work);
  return left;
}

// On the host, and that the kernel leaves the same.
Left compare(uint32_t count, bool agreed, const Receive& receive) {
  const Left host = compare(count, agreed, receive, [](const HeaderWork& w) { codec::run(w); });
  const Left kernel = compare(count, agreed, receive, [](const HeaderWork& w) {
    cpu_call_header(w, {.blocks = 1, .threads = kWarp, .seed = w.count});
  });
  EXPECT_EQ(host.memory, kernel.memory);
  EXPECT_EQ(std::memcmp(&host.report, &kernel.report, sizeof host.report), 0);
  EXPECT_EQ(codec::is_found(host.report), codec::is_found(kernel.report));
  return host;
}

TEST(CallHeader, OfAnotherCallIsRefusedAndReported) {
  const Left left = compare(1, false, [](CallHeader* r) { r[0] = header_of(3, 98); });
  EXPECT_TRUE(left.refuses());
  ASSERT_TRUE(codec::is_found(left.report));
  EXPECT_EQ(left.report.own, header_of(5, 100));
  EXPECT_EQ(left.report.other, header_of(3, 98));
}

// Ranks that have had no header of this one yet are told so, and by them others.
TEST(CallHeader, SaysOnceItIsKnownThatAnotherRanksCallDiffers) {
  const auto sent = [](uint32_t count, const Receive& receive) {
    const Left left = compare(count, false, receive);
    CallHeader own;
    std::memcpy(&own, &left.memory[CallHeader::kWords], sizeof own);
    return own;
  };
  CallHeader found = header_of(5, 100);
  EXPECT_EQ(sent(1, [](CallHeader* r) { r[0] = header_of(3, 100); }), found);
  found.word[CallHeader::kFound] = 1 + 35;
  EXPECT_EQ(sent(40,
                 [](CallHeader* r) {
                   for (uint32_t i = 0; i < 40; ++i)
                     r[i] = header_of(i, i == 35 || i == 37 ? 98 : 100);
                 }),
            found);
  EXPECT_EQ(sent(1,
                 [](CallHeader* r) {
                   r[0] = header_of(3, 100);
                   r[0].word[CallHeader::kFound] = 1 + 35;
                 }),
            found)
      << "of the same call, by a rank that has met rank 35";
  found.word[CallHeader::kFound] = 1 + 3;
  EXPECT_EQ(sent(1,
                 [](CallHeader* r) {
                   r[0] = header_of(3, 98);
                   r[0].word[CallHeader::kFound] = 1 + 35;
                 }),
            found)
      << "of another call, which differs from rank 35's";
}

TEST(CallHeader, OfTheSameCallIsNotHoweverManyThereAre) {
  for (const uint32_t count : {1u, 31u, 32u, 33u, 70u}) {
    const Left left = compare(count, false, [&](CallHeader* r) {
      for (uint32_t i = 0; i < count; ++i) r[i] = header_of(i, 100);
    });
    EXPECT_FALSE(left.refuses());
    EXPECT_FALSE(codec::is_found(left.report));
  }
}

TEST(CallHeader, OfSeveralMismatchesTheFirstIsReported) {
  for (const uint32_t first : {0u, 7u, 31u, 32u, 63u, 68u}) {
    const Left left = compare(70, false, [&](CallHeader* r) {
      for (uint32_t i = 0; i < 70; ++i) r[i] = header_of(i, i == first || i == 69 ? 1 : 100);
    });
    EXPECT_TRUE(left.refuses());
    EXPECT_EQ(left.report.other, header_of(first, 1));
  }
}

TEST(CallHeader, ThatHasNotComeIsRefusedAndNotReported) {
  const Left left = compare(2, false, [](CallHeader* r) { r[1] = header_of(1, 100); });
  EXPECT_TRUE(left.refuses());
  EXPECT_FALSE(codec::is_found(left.report));
}

// By the largest words and the complements of the smallest, as NCCL makes them of two ranks' calls.
TEST(CallHeader, OfAllRanksIsTheirsWhoDiffers) {
  for (const uint32_t count : {98u, 102u}) {
    const Left left = compare(1, true, [&](CallHeader* r) {
      const CallHeader other = header_of(5, count);
      for (uint32_t i = 0; i < CallHeader::kWords; ++i) {
        r[0].word[i] = std::max(r[0].word[i], other.word[i]);
        r[1].word[i] = std::max(r[1].word[i], ~other.word[i]);
      }
    });
    EXPECT_TRUE(left.refuses());
    EXPECT_EQ(left.report.other, header_of(5, count));
  }
  EXPECT_FALSE(compare(1, true, [](CallHeader*) {}).refuses());
}

}  // namespace
}  // namespace terse::kernels
