// The kernels on the SIMT executor against the host codec, byte for byte: every codec, rounding and
// type, blocks of all sizes, short tails, any alignment, many pieces in a launch. Memory outside of
// what a piece may touch is out of bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "cases.h"
#include "cpu_kernels.h"
#include "simt/global_memory.h"
#include "support.h"

namespace terse::kernels {
namespace {

using codec::Bytes;
using codec::Combine;
using codec::Dtype;
using codec::Guarded;
using codec::Input;
using codec::Random;
using codec::Spec;

// The case's memory, and the works that refer to it.
class Memory {
 public:
  explicit Memory(const Case& c) : multiplier_(c.multiplier()) {
    for (const Work& w : c.works) {
      const size_t first = sources_.size();
      for (const Input& input : w.inputs) {
        inputs_.emplace_back(input.bytes, w.offset);
        sources_.push_back({inputs_.back().data(), input.raw});
      }
      if (w.in_place) {
        const size_t own = raw_source(w);
        targets_.emplace_back(w.inputs[own].bytes, w.offset);
        sources_[first + own].data = targets_.back().data();
      } else {
        targets_.emplace_back(target_bytes(c, w), w.offset);
      }
      works_.push_back(combine_of(c, w, {}, targets_.back().data(), multiplier_.data()));
      spans_.push_back(first);
    }
    for (size_t i = 0; i < works_.size(); ++i)
      works_[i].sources = {sources_.data() + spans_[i], c.works[i].inputs.size()};
  }

  const std::vector<Combine>& works() const { return works_; }

  // What a kernel may touch.
  std::deque<simt::Memory> allowed() {
    std::deque<simt::Memory> ranges;
    for (Guarded& in : inputs_)
      ranges.emplace_back(in.data(), in.size(), simt::Access::kReadOnly, "source");
    ranges.emplace_back(multiplier_.data(), multiplier_.size(), simt::Access::kReadOnly,
                        "multiplier");
    for (Guarded& out : targets_)
      ranges.emplace_back(out.data(), out.size(), simt::Access::kReadWrite, "target");
    return ranges;
  }

  std::vector<Bytes> results() const {
    std::vector<Bytes> all;
    for (const Guarded& target : targets_) {
      EXPECT_TRUE(target.intact());
      all.push_back(target.content());
    }
    return all;
  }

 private:
  Bytes multiplier_;
  std::deque<Guarded> inputs_, targets_;
  std::vector<codec::Source> sources_;
  std::vector<size_t> spans_;
  std::vector<Combine> works_;
};

std::vector<Bytes> on_host(const Case& c) {
  Memory memory(c);
  for (Combine work : memory.works()) {
    work.target.draw = codec::redraw(work.target.draw, c.replays);
    codec::combine(work);
  }
  return memory.results();
}

std::vector<Bytes> on_kernels(const Case& c, Random& random) {
  Memory memory(c);
  uint64_t replays = c.replays;
  auto allowed = memory.allowed();
  allowed.emplace_back(&replays, sizeof replays, simt::Access::kReadOnly, "replays");
  make_batches(memory.works(), c.replays != 0 ? &replays : nullptr,
               [&](const KernelId& id, const Batch& batch) {
                 const uint64_t most = std::min<uint64_t>(thread_blocks(batch), 3);
                 cpu_kernel(id)(batch, {.blocks = static_cast<uint32_t>(1 + random.below(most)),
                                        .threads = kThreads,
                                        .seed = random.next()});
               });
  return memory.results();
}

TEST(Kernels, GiveTheHostsBytes) {
  Random random(2024);
  for (int repeat = 0; repeat < 1500; ++repeat) {
    const Case c = some_case(random);
    SCOPED_TRACE(std::to_string(repeat) + ": " + describe(c));
    const auto expected = on_host(c);
    const auto found = on_kernels(c, random);
    for (size_t p = 0; p < expected.size(); ++p) {
      const auto [e, f] =
          std::mismatch(expected[p].begin(), expected[p].end(), found[p].begin(), found[p].end());
      ASSERT_TRUE(e == expected[p].end())
          << "piece " << p << ", byte " << e - expected[p].begin() << " of " << expected[p].size()
          << ": " << int(*e) << " expected, " << int(*f) << " found";
    }
  }
}

// Every kernel that there is, on a whole block and a short one.
TEST(Kernels, OfEveryKindGiveTheHostsBytes) {
  Random random(7);
  for (int bits = codec::kMinBits; bits <= codec::kMaxBits; ++bits)
    for (const codec::Kind kind : codec::kAllKinds)
      for (const Dtype raw : codec::kAllDtypes)
        for (const bool packed : {true, false}) {
          const size_t counts[] = {1024, 201};
          const Case c = conversion(codec::make_spec(kind, bits, 128), raw, packed, counts, random);
          SCOPED_TRACE(describe(c));
          ASSERT_EQ(on_host(c), on_kernels(c, random));
        }
}

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
                              : codec::Source{packed.data() + r * stride, std::nullopt});
  const Combine work{.spec = spec,
                     .sources = sources,
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
  std::vector<codec::Source> sources(32);
  std::vector<Combine> works;
  for (size_t p = 0; p < 32; ++p) {
    sources[p] = {in.data() + 100 * p, Dtype::kFloat32};
    works.push_back({.spec = {.bits = 4},
                     .sources = {&sources[p], 1},
                     .target = {out.data() + 100 * p, {}},
                     .total = 100,
                     .count = 100});
  }
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
    works.push_back({.spec = {.bits = 4},
                     .sources = {&source, 1},
                     .target = {out.data(), {}},
                     .premultiply = m,
                     .total = 64,
                     .count = 64});
  std::vector<uint32_t> pieces;
  make_batches(works, nullptr,
               [&](const KernelId&, const Batch& batch) { pieces.push_back(batch.pieces); });
  EXPECT_EQ(pieces, (std::vector<uint32_t>{2, 1, 2, 1}));
}

TEST(Batches, RefuseWhatKernelsCannotDo) {
  std::vector<float> in(64);
  Bytes out(256);
  const codec::Source source{in.data(), Dtype::kFloat32};
  Combine work{
      .spec = {}, .sources = {&source, 1}, .target = {out.data(), {}}, .total = 64, .count = 64};
  const auto ignore = [](const KernelId&, const Batch&) {};
  EXPECT_NO_THROW(make_batches({&work, 1}, nullptr, ignore));
  work.count = 32;  // a part of a body
  EXPECT_THROW(make_batches({&work, 1}, nullptr, ignore), std::invalid_argument);
  work.count = 64;
  work.target.raw = Dtype::kFloat16;  // another type than the source's
  EXPECT_THROW(make_batches({&work, 1}, nullptr, ignore), std::invalid_argument);
  work.target.raw = {};
  work.sources = {};
  EXPECT_THROW(make_batches({&work, 1}, nullptr, ignore), std::invalid_argument);
}

}  // namespace
}  // namespace terse::kernels
