// The check of memory: the kernel on the SIMT executor, the host's loop, and the sum as its
// definition has it.
#include "codec/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

#include "batch.h"
#include "cpu_kernels.h"
#include "expect_noticed.h"
#include "simt/global_memory.h"

namespace terse::kernels {
namespace {

// Pieces somewhere in memory.
struct Pieces {
  std::vector<uint8_t> memory;
  size_t offset;
  uint64_t bytes, pieces, first;

  codec::CheckedPieces where() const { return {memory.data() + offset, bytes, pieces, first}; }
};

Pieces some_pieces(uint64_t bytes, uint64_t pieces, size_t offset, uint64_t first) {
  std::mt19937 random(static_cast<unsigned>(bytes + 7 * pieces + offset));
  Pieces p{std::vector<uint8_t>(bytes * pieces + offset), offset, bytes, pieces, first};
  std::ranges::generate(p.memory, [&] { return static_cast<uint8_t>(random()); });
  return p;
}

uint64_t plainly(const std::vector<Pieces>& all) {
  uint64_t sum = 0;
  for (const Pieces& of : all) {
    uint64_t i = of.first;
    for (uint64_t p = 0; p < of.pieces; ++p)
      for (uint64_t at = 0; at < of.bytes; at += 4, ++i) {
        uint32_t word = 0;
        for (uint64_t k = 0; k < 4 && at + k < of.bytes; ++k)
          word |= uint32_t{of.memory[of.offset + p * of.bytes + at + k]} << (8 * k);
        sum += (word ^ 0x9E3779B9ull) * (2 * i + 1);
      }
  }
  return sum;
}

// Into parts that hold garbage before.
template <class Run>
uint64_t total_of(const std::vector<Pieces>& all, const Run& run) {
  std::vector<uint64_t> parts(codec::kCheckParts + 1, ~0ull);
  uint64_t& total = parts.back();
  codec::Checksum work{{}, static_cast<uint32_t>(all.size()), parts.data(), &total};
  std::deque<simt::Memory> allowed;
  for (size_t i = 0; i < all.size(); ++i) {
    work.of[i] = all[i].where();
    allowed.emplace_back(all[i].memory.data(), all[i].memory.size(), simt::Access::kReadOnly,
                         "pieces");
  }
  allowed.emplace_back(parts.data(), parts.size() * sizeof parts[0], simt::Access::kReadWrite,
                       "parts");
  run(work);
  EXPECT_EQ(total, codec::total(parts.data()));
  return total;
}

uint64_t on_host(const std::vector<Pieces>& all) {
  return total_of(all, [](const codec::Checksum& work) { codec::checksum(work); });
}

uint64_t on_kernel(const std::vector<Pieces>& all, const simt::Planter* planter = nullptr) {
  return total_of(all, [&](const codec::Checksum& work) {
    cpu_checksum(work, {.blocks = codec::kCheckParts,
                        .threads = kThreads,
                        .seed = all.size(),
                        .planter = planter});
    cpu_sum_checks(work, {.blocks = 1, .threads = kThreads, .seed = 1});
  });
}

TEST(Checksum, KernelAndHostSeeTheSame) {
  for (const uint64_t bytes : {0, 2, 4, 6, 16, 18, 30, 1000, 1002, 262'144, 600'006})
    for (const size_t offset : {0, 1, 2, 4, 16}) {
      SCOPED_TRACE(testing::Message() << bytes << " B at " << offset);
      const std::vector<Pieces> all{some_pieces(bytes, 3, offset, 5),
                                    some_pieces(bytes, 1, 0, uint64_t{1} << 40),
                                    some_pieces(bytes, 0, 0, 9)};
      const uint64_t want = plainly(all);
      EXPECT_EQ(on_host(all), want);
      EXPECT_EQ(on_kernel(all), want);
    }
}

// Numbered alike, it does not matter how the pieces are cut.
TEST(Checksum, IsThatOfThePiecesWhereverTheyAre) {
  const Pieces whole = some_pieces(1002, 7, 0, 0);
  std::vector<Pieces> cut(3, whole);
  const uint64_t words = codec::check_words(1002), counts[] = {2, 1, 4};
  uint64_t piece = 0;
  for (size_t i = 0; i < cut.size(); piece += counts[i++]) {
    cut[i].offset = piece * 1002;
    cut[i].pieces = counts[i];
    cut[i].first = piece * words;
  }
  EXPECT_EQ(on_host(cut), on_host({whole}));
  EXPECT_EQ(on_kernel(cut), on_host({whole}));
}

TEST(Checksum, SeesWordsThatChangePlaces) {
  Pieces p = some_pieces(64, 1, 0, 0);
  const uint64_t before = on_host({p});
  std::swap_ranges(p.memory.begin() + 8, p.memory.begin() + 12, p.memory.begin() + 40);
  EXPECT_NE(on_host({p}), before);
}

TEST(Checksum, NoMistakeInTheKernelGoesUnnoticed) {
  using enum simt::Mistake;
  std::vector<Trial> trials;
  // Several octets for some threads, and one that is short.
  for (const uint64_t bytes : {600'006, 600'012}) {
    const std::vector<Pieces> all{some_pieces(bytes, 1, bytes % 4, 3)};
    trials.emplace_back(
        [=, want = on_host(all)](const auto* planter) { return on_kernel(all, planter) == want; });
  }
  EXPECT_EQ(expect_noticed(trials), (std::set{kNoBarrier, kStoresFurther, kLoadsFurther}));
}

}  // namespace
}  // namespace terse::kernels
