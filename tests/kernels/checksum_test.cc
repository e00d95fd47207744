// The check of memory: the kernel on the SIMT executor, the host's loop, and the sum as its
// definition has it.
#include "codec/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "cpu_kernels.h"
#include "expect_noticed.h"
#include "kernels/device/batch.h"
#include "kernels/device/partial_sums.h"
#include "memory_check.h"
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
    const uint64_t words = codec::check_words(of.bytes);
    for (uint64_t p = 0; p < of.pieces; ++p)
      sum +=
          memory_check(of.memory.data() + of.offset + p * of.bytes, of.bytes, of.first + p * words);
  }
  return sum;
}

// Into parts that hold garbage before.
template <class Run>
uint64_t total_of(const std::vector<Pieces>& all, const Run& run, bool are_samples = false) {
  std::vector<uint64_t> parts(are_samples ? codec::kSampleParts : codec::kCheckParts, ~0ull);
  codec::Checksum work{.of = {},
                       .count = static_cast<uint32_t>(all.size()),
                       .parts = parts.data(),
                       .part_count = static_cast<uint32_t>(parts.size()),
                       .are_samples = are_samples};
  std::deque<simt::Memory> allowed;
  for (size_t i = 0; i < all.size(); ++i) {
    work.of[i] = all[i].where();
    allowed.emplace_back(all[i].memory.data(), all[i].memory.size(), simt::Access::kReadOnly,
                         "pieces");
  }
  allowed.emplace_back(parts.data(), parts.size() * sizeof parts[0], simt::Access::kReadWrite,
                       "parts");
  run(work);
  return codec::total(parts.data(), work.part_count);
}

uint64_t on_host(const std::vector<Pieces>& all) {
  return total_of(all, [](const codec::Checksum& work) { codec::checksum(work); });
}

// On as many thread blocks as a GPU has of them, or no more than `most`.
uint64_t on_kernel(const std::vector<Pieces>& all, uint32_t most = codec::kCheckParts,
                   const simt::Planter* planter = nullptr) {
  return total_of(all, [&](const codec::Checksum& work) {
    cpu_checksum(work, {.blocks = std::min(thread_blocks(work), most),
                        .threads = kThreads,
                        .seed = all.size(),
                        .planter = planter});
  });
}

uint64_t of_samples_on_kernel(const std::vector<Pieces>& all, uint32_t blocks) {
  const auto run = [&](const codec::Checksum& work) {
    cpu_checksum(work, {.blocks = blocks, .threads = kThreads, .seed = all.size()});
  };
  return total_of(all, run, true);
}

template <class Run>
bool extreme_in(const Pieces& pieces, codec::Dtype dtype, const Run& run) {
  std::vector<uint64_t> parts(codec::kCheckParts);
  std::vector<uint32_t> extreme(codec::kCheckParts, ~0u);
  const codec::Checksum work{.of = {pieces.where()},
                             .count = 1,
                             .parts = parts.data(),
                             .bits = codec::extreme_bits(dtype),
                             .extreme = extreme.data()};
  const simt::Memory of(pieces.memory.data(), pieces.memory.size(), simt::Access::kReadOnly,
                        "pieces");
  const simt::Memory to(parts.data(), parts.size() * sizeof parts[0], simt::Access::kReadWrite,
                        "parts");
  const simt::Memory said(extreme.data(), extreme.size() * sizeof extreme[0],
                          simt::Access::kReadWrite, "extreme");
  run(work);
  EXPECT_EQ(codec::total(parts.data()), plainly({pieces}));
  return codec::any_extreme(work);
}

bool extreme_on_host(const Pieces& pieces, codec::Dtype dtype) {
  return extreme_in(pieces, dtype, codec::checksum);
}

bool extreme_on_kernel(const Pieces& pieces, codec::Dtype dtype) {
  return extreme_in(pieces, dtype, [](const codec::Checksum& work) {
    cpu_checksum(work, {.blocks = thread_blocks(work), .threads = kThreads, .seed = 1});
  });
}

TEST(Checksum, KernelAndHostSeeTheSame) {
  for (const uint64_t bytes : {0, 2, 4, 6, 16, 18, 30, 1000, 1002, 262'144, 1'200'006})
    for (const size_t offset : {0, 1, 2, 4, 16}) {
      SCOPED_TRACE(testing::Message() << bytes << " B at " << offset);
      const std::vector<Pieces> all{some_pieces(bytes, 3, offset, 5),
                                    some_pieces(bytes, 1, 0, uint64_t{1} << 40),
                                    some_pieces(bytes, 0, 0, 9)};
      const uint64_t want = plainly(all);
      EXPECT_EQ(on_host(all), want);
      EXPECT_EQ(on_kernel(all), want);
      // Several vectors of 8 for each thread, of which the last ones are not all there.
      EXPECT_EQ(on_kernel(all, 1 + bytes % 7), want);
      EXPECT_EQ(of_samples_on_kernel(all, 1 + bytes % codec::kSampleParts), want);
    }
}

// One for every kThreads vectors of 8 of the largest pieces, up to one for each part; of samples
// for each of them.
TEST(Checksum, TakesAsManyThreadBlocksAsThereAreVectorsFor) {
  const auto blocks = [](uint64_t bytes, uint64_t pieces) {
    const codec::Checksum work{.of = {{nullptr, 100, 1, 0}, {nullptr, bytes, pieces, 0}},
                               .count = 2};
    return thread_blocks(work);
  };
  constexpr uint64_t kOfABlock = kThreads * kCheckedBytes;
  EXPECT_EQ(blocks(0, 1), 1u);
  EXPECT_EQ(blocks(kOfABlock, 3), 1u);
  EXPECT_EQ(blocks(kOfABlock + 2, 3), 2u);
  EXPECT_EQ(blocks(kOfABlock + 2, 0), 1u);
  codec::Checksum samples{.of = {{nullptr, kOfABlock, 1, 0}, {nullptr, kOfABlock + 2, 1, 0}},
                          .count = 2,
                          .part_count = 32,
                          .are_samples = true};
  EXPECT_EQ(thread_blocks(samples), 4u);
  samples.of[1].bytes = 10 * kOfABlock;
  EXPECT_EQ(thread_blocks(samples), 20u);
  samples.of[1].bytes = 100 * kOfABlock;
  EXPECT_EQ(thread_blocks(samples), 32u);
  EXPECT_EQ(blocks(uint64_t{1} << 40, 1), codec::kCheckParts);
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

// Of every type, one element in many, wherever it is.
TEST(Checksum, SeesWhatIsExtreme) {
  struct Type {
    codec::Dtype dtype;
    uint32_t extreme[4];  // the least one, the largest finite one, an infinity, a NaN
  };
  static constexpr Type kTypes[] = {
      {codec::Dtype::kFloat32, {0x78000000u, 0x7f7fffffu, 0x7f800000u, 0x7f800001u}},
      {codec::Dtype::kFloat16, {0x7000u, 0x7bffu, 0x7c00u, 0x7c01u}},
      {codec::Dtype::kBfloat16, {0x7800u, 0x7f7fu, 0x7f80u, 0x7f81u}}};
  std::mt19937 random(3);
  for (const Type& type : kTypes)
    for (int i = 0; i < 60; ++i) {
      const size_t size = codec::dtype_size(type.dtype), offset = size * (random() % 3);
      const size_t count = 1 + random() % (i % 4 == 0 ? 70'000 : 40), at = random() % count;
      const uint32_t sign = random() % 2 << (8 * size - 1);
      Pieces p = some_pieces(count * size, 1, offset, 0);
      const auto set = [&](size_t k, uint32_t bits) {
        std::memcpy(p.memory.data() + offset + k * size, &bits, size);
      };
      for (size_t k = 0; k < count; ++k) set(k, random() % type.extreme[0]);
      set(count - 1, (type.extreme[0] - 1) | sign);
      EXPECT_FALSE(extreme_on_host(p, type.dtype));
      EXPECT_FALSE(extreme_on_kernel(p, type.dtype));
      set(at, type.extreme[random() % 4] | sign);
      EXPECT_TRUE(extreme_on_host(p, type.dtype)) << count << " at " << at;
      EXPECT_TRUE(extreme_on_kernel(p, type.dtype)) << count << " at " << at;
    }
}

TEST(Checksum, NoMistakeInTheKernelGoesUnnoticed) {
  using enum simt::Mistake;
  std::vector<Trial> trials;
  // Several vectors of 8 for each thread, some of which lack the last ones, and one that is short.
  for (uint64_t bytes = 25'000; bytes < 25'020; bytes += 2) {
    const std::vector<Pieces> all{some_pieces(bytes, 1, bytes % 4, 3)};
    trials.emplace_back([=, want = on_host(all)](const auto* planter) {
      return on_kernel(all, 2, planter) == want;
    });
  }
  EXPECT_EQ(expect_noticed(trials), (std::set{kNoBarrier, kStoresFurther, kLoadsFurther}));
}

}  // namespace
}  // namespace terse::kernels
