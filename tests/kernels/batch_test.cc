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

// Work on one of many bodies that lie in a row: elements that are packed.
struct Row {
  static constexpr size_t kCount = 96, kStride = 128;

  std::vector<float> in;
  Bytes out;
  std::vector<codec::Source> sources;
  std::vector<Combine> works;

  explicit Row(size_t bodies) : in(bodies * kCount), out(bodies * kStride) {
    sources.reserve(bodies);
    for (size_t b = 0; b < bodies; ++b) {
      sources.push_back({in.data() + kCount * b, Dtype::kFloat32});
      works.push_back({.sources = {&sources[b], 1},
                       .target = {out.data() + kStride * b, Spec{.bits = 4}},
                       .total = kCount,
                       .count = kCount});
    }
  }

  // Bodies of each piece.
  std::vector<uint32_t> pieces() const {
    std::vector<uint32_t> all;
    make_batches(works, nullptr, [&](const KernelId&, const Batch& batch) {
      for (uint32_t p = 0; p < batch.pieces; ++p) all.push_back(batch.piece[p].bodies);
    });
    return all;
  }
};

using Counts = std::vector<uint32_t>;

// However many ranks there are, one launch serves the bodies for all of them.
TEST(Batches, TakeBodiesAtEqualDistancesAsOnePiece) {
  Row row(500);
  for (uint32_t b = 0; b < 500; ++b) row.works[b].target.draw.stream[1] = 9 * b;
  size_t launches = 0;
  make_batches(row.works, nullptr, [&](const KernelId&, const Batch& batch) {
    ++launches;
    ASSERT_EQ(batch.pieces, 1u);
    const PieceRun& piece = batch.piece[0];
    EXPECT_EQ(piece.bodies, 500u);
    EXPECT_EQ(piece.next_target, Row::kStride);
    EXPECT_EQ(piece.next_stream, 9u);
    EXPECT_EQ(batch.sources[0].next, Row::kCount * sizeof(float));
    EXPECT_EQ(batch.tiles, (Tiles{0, 500}));
  });
  EXPECT_EQ(launches, 1u);
}

// What a piece says but once is the same for all its bodies.
TEST(Batches, BeginAPieceWhereABodyIsUnlike) {
  const auto pieces = [](const auto& change) {
    Row row(6);
    change(row);
    return row.pieces();
  };
  EXPECT_EQ(pieces([](Row&) {}), (Counts{6}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.data = r.out.data(); }), (Counts{3, 2, 1}));
  EXPECT_EQ(pieces([](Row& r) { r.sources[3].data = r.in.data(); }), (Counts{3, 2, 1}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].total = r.works[3].count = 64; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].params_offset = 80; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].factor = 0.5f; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.origin = 32; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.draw.key[0] = 1; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.draw.key[1] = 1; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.draw.stream[0] = 1; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.draw.stream[1] = 1; }), (Counts{3, 2, 1}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.draw.rotate = 1; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].target.draw.flip = 1; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.sources[3].negated = true; }), (Counts{3, 1, 2}));
  EXPECT_EQ(pieces([](Row& r) { r.works[3].sources = {&r.sources[3], 2}; }), (Counts{3, 1, 2}));
}

// Those of a body that are at other distances from each other are no part of the run.
TEST(Batches, CompareEachSourceOfABody) {
  const Spec spec{};
  constexpr size_t kBodies = 4, kStride = 128;
  Bytes packed(3 * kBodies * kStride), out(kBodies * 256);
  std::vector<std::vector<codec::Source>> sources(kBodies);
  std::vector<Combine> works;
  for (size_t b = 0; b < kBodies; ++b) {
    for (size_t s = 0; s < 3; ++s)
      sources[b].push_back({packed.data() + (s * kBodies + b) * kStride, spec});
    works.push_back({.sources = sources[b],
                     .target = {out.data() + b * 256, Dtype::kFloat32},
                     .total = 64,
                     .count = 64});
  }
  Counts pieces;
  const auto note = [&](const KernelId&, const Batch& batch) {
    pieces.clear();
    for (uint32_t p = 0; p < batch.pieces; ++p) pieces.push_back(batch.piece[p].bodies);
  };
  make_batches(works, nullptr, note);
  EXPECT_EQ(pieces, (Counts{4}));
  std::swap(sources[2][1], sources[2][2]);
  make_batches(works, nullptr, note);
  EXPECT_EQ(pieces, (Counts{2, 1, 1}));
}

// A launch names so many pieces, and all others go into the next one.
TEST(Batches, AreFullAtTheMostPieces) {
  Row row(2 * Batch::kMaxPieces + 1);
  for (size_t b = 0; b < row.works.size(); ++b)
    row.works[b].target.origin = 32 * b;  // no two are alike
  Counts pieces;
  make_batches(row.works, nullptr,
               [&](const KernelId&, const Batch& batch) { pieces.push_back(batch.pieces); });
  EXPECT_EQ(pieces, (Counts{Batch::kMaxPieces, Batch::kMaxPieces, 1}));
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
  Counts bodies;
  make_batches(works, nullptr, [&](const KernelId&, const Batch& batch) {
    bodies.push_back(batch.piece[0].bodies);
  });
  EXPECT_EQ(bodies, (Counts{2, 1, 2, 1}));
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
      all.push_back({batch.codebook, batch.piece[0].bodies});
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
