// How work is cut into launches.
#include "kernels/device/batch.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "support.h"

namespace terse::kernels {
namespace {

using codec::Bytes;
using codec::Combine;
using codec::Dtype;
using codec::Spec;

// The peers' equally distant pieces are one run however many ranks there are, so that a reduction
// over any number of ranks is one launch.
TEST(Batches, NameEqualDistancesOnce) {
  constexpr size_t kRanks = 200, kCount = 64;
  const Spec spec{};
  const size_t stride = 128;
  Bytes packed(kRanks * stride + 64);
  std::vector<float> own(kCount), out(kCount);
  std::vector<codec::Source> sources;
  for (size_t r = 0; r < kRanks; ++r)
    sources.push_back(r == 77 ? codec::Source{own.data(), Dtype::kFloat32}
                              : codec::Source{packed.data() + r * stride, spec});
  const Combine work{.sources = sources,
                     .target = {out.data(), Dtype::kFloat32},
                     .total = kCount,
                     .count = kCount};
  size_t launches = 0;
  make_batches({&work, 1}, nullptr, [&](const KernelId& id, const Batch& batch) {
    ++launches;
    EXPECT_FALSE(id.packed_target);
    ASSERT_EQ(batch.piece[0].sources, 3);
    EXPECT_EQ(batch.sources[0].count, 77u);
    EXPECT_EQ(batch.sources[0].stride, stride);
    EXPECT_EQ(batch.sources[1].count, 1u);
    EXPECT_EQ(batch.sources[2].count, kRanks - 78);
  });
  EXPECT_EQ(launches, 1u);
}

// One launch serves the pieces for all peers of a stage.
TEST(Batches, TakeAStageInOneLaunch) {
  std::vector<float> in(32 * 100);
  Bytes out(32 * 100);
  const Spec spec{.bits = 4};
  std::vector<codec::Source> sources;
  std::vector<Combine> works;
  for (size_t p = 0; p < 32; ++p) sources.push_back({in.data() + 100 * p, Dtype::kFloat32});
  for (size_t p = 0; p < 32; ++p)
    works.push_back({.sources = {&sources[p], 1},
                     .target = {out.data() + 100 * p, spec},
                     .total = 100,
                     .count = 100});
  size_t launches = 0;
  make_batches(works, nullptr, [&](const KernelId&, const Batch& batch) {
    ++launches;
    EXPECT_EQ(batch.pieces, 32u);
    EXPECT_EQ(batch.tiles.whole, 0u);
    EXPECT_EQ(batch.tiles.partial, 32u);
  });
  EXPECT_EQ(launches, 1u);
}

// A launch multiplies all its raw sources alike.
TEST(Batches, SplitWhereTheMultiplierChanges) {
  std::vector<float> in(64), late(2);
  Bytes out(4 * 64);
  const codec::Source source{in.data(), Dtype::kFloat32};
  const codec::Multiplier multipliers[] = {{1.0f},           {1.0f},           {2.0f},
                                           {2.0f, &late[0]}, {3.0f, &late[0]}, {3.0f, &late[1]}};
  std::vector<Combine> works;
  for (const codec::Multiplier& m : multipliers)
    works.push_back({.sources = {&source, 1},
                     .target = {out.data(), Spec{.bits = 4}},
                     .premultiply = m,
                     .total = 64,
                     .count = 64});
  std::vector<uint32_t> pieces;
  make_batches(works, nullptr,
               [&](const KernelId&, const Batch& batch) { pieces.push_back(batch.pieces); });
  EXPECT_EQ(pieces, (std::vector<uint32_t>{2, 1, 2, 1}));
}

// Nor has it two tables of levels; to codecs without levels those of others are nothing.
TEST(Batches, SplitWhereTheCodebookChanges) {
  std::vector<float> in(64), tables(2);
  Bytes out(4 * 64);
  const codec::Source source{in.data(), Dtype::kFloat32};
  const auto batches = [&](codec::CodecId codec) {
    std::vector<Combine> works;
    const float* const codebooks[] = {&tables[0], &tables[0], &tables[1], nullptr};
    for (const float* table : codebooks)
      works.push_back({.sources = {&source, 1},
                       .target = {out.data(), Spec{.codec = codec, .bits = 4}},
                       .total = 64,
                       .count = 64,
                       .codebook = table});
    std::vector<std::pair<const float*, uint32_t>> all;
    make_batches(works, nullptr, [&](const KernelId&, const Batch& batch) {
      all.push_back({batch.codebook, batch.pieces});
    });
    return all;
  };
  using Batches = std::vector<std::pair<const float*, uint32_t>>;
  EXPECT_EQ(batches(codec::Learned::kDescriptor.id),
            (Batches{{&tables[0], 2}, {&tables[1], 1}, {nullptr, 1}}));
  EXPECT_EQ(batches(codec::kSymmetric), (Batches{{nullptr, 4}}));
}

TEST(Batches, RefuseWhatKernelsCannotDo) {
  std::vector<float> in(64);
  Bytes out(256);
  const codec::Source source{in.data(), Dtype::kFloat32};
  Combine work{.sources = {&source, 1}, .target = {out.data(), Spec{}}, .total = 64, .count = 64};
  const auto ignore = [](const KernelId&, const Batch&) {};
  EXPECT_NO_THROW(make_batches({&work, 1}, nullptr, ignore));
  work.count = 32;  // a part of a body
  EXPECT_THROW(make_batches({&work, 1}, nullptr, ignore), std::invalid_argument);
  work.count = 64;
  work.target.format = Dtype::kFloat16;  // another type than the source's
  EXPECT_THROW(make_batches({&work, 1}, nullptr, ignore), std::invalid_argument);
  work.target.format = Spec{};
  work.sources = {};
  EXPECT_THROW(make_batches({&work, 1}, nullptr, ignore), std::invalid_argument);
}

TEST(Batches, RefuseMergesOfWhatIsNotMerged) {
  Bytes in(256), out(256);
  const auto ignore = [](const KernelId&, const Batch&) {};
  const auto refuses = [&](codec::CodecId codec, const codec::Format& format) {
    const Spec spec{.codec = codec};
    const codec::Source source{in.data(), format};
    const Combine work{.sources = {&source, 1},
                       .target = {out.data(), spec, {}, 0, codec::Part::kMerged},
                       .total = 64,
                       .count = 64};
    try {
      make_batches({&work, 1}, nullptr, ignore);
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  const codec::CodecId merged = codec::Exponential::kDescriptor.id;
  const codec::CodecId summed = codec::Linear<8>::kDescriptor.id;
  EXPECT_FALSE(refuses(merged, Spec{.codec = merged}));
  EXPECT_TRUE(refuses(merged, Dtype::kFloat32));
  EXPECT_TRUE(refuses(summed, Spec{.codec = summed}));
  EXPECT_TRUE(refuses(codec::kSymmetric, Spec{}));
}

}  // namespace
}  // namespace terse::kernels
