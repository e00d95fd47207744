// The kernels that learn levels, on the SIMT executor, against the host, byte for byte.
#include "codec/learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "codec/codebook.h"
#include "cpu_kernels.h"
#include "expect_noticed.h"
#include "kernels/device/batch.h"
#include "simt/global_memory.h"
#include "support.h"

namespace terse::kernels {
namespace {

using codec::Dtype;
using codec::Floats;
using codec::LearningState;
using codec::Rounding;
using Stage = codec::Learning::Stage;

struct Launch {
  uint32_t blocks = 3;
  uint64_t seed = 0;
  const simt::Planter* planter = nullptr;

  operator simt::Launch() const {
    return {.blocks = blocks, .threads = kThreads, .seed = seed, .planter = planter};
  }
};

struct State : LearningState {
  State() { std::memset(static_cast<LearningState*>(this), 0xab, sizeof(LearningState)); }

  friend bool operator==(const State& a, const State& b) {
    return a.widest == b.widest && std::ranges::equal(a.bins, b.bins);
  }
};

// Elements between those of others.
struct Buffer {
  std::vector<char> bytes;
  size_t offset, count;
  Dtype dtype;

  template <class T>
  Buffer(const Floats& x, Dtype type, T, size_t bytes_before)
      : bytes(x.size() * sizeof(T) + bytes_before + 64),
        offset(bytes_before),
        count(x.size()),
        dtype(type) {
    for (size_t i = 0; i < x.size(); ++i) {
      const T element = codec::from_float<T>(x[i]);
      std::memcpy(bytes.data() + offset + i * sizeof(T), &element, sizeof(T));
    }
  }

  const char* data() const { return bytes.data() + offset; }
};

Buffer make_buffer(const Floats& x, Dtype dtype, size_t offset) {
  if (dtype == Dtype::kFloat32) return {x, dtype, float{}, offset};
  if (dtype == Dtype::kFloat16) return {x, dtype, codec::half_t{}, offset};
  return {x, dtype, codec::bfloat_t{}, offset};
}

codec::Learning work_of(Stage stage, const Buffer& buffer, uint32_t block, State& state) {
  return {stage,         buffer.dtype, 4,      Rounding::kNearest, block, buffer.count,
          buffer.data(), &state,       nullptr};
}

State on_host(const Buffer& buffer, uint32_t block) {
  State state;
  for (const Stage stage : {Stage::kWidest, Stage::kHistogram})
    codec::learn(work_of(stage, buffer, block, state));
  return state;
}

State on_kernel(const Buffer& buffer, uint32_t block, const Launch& launch) {
  State state;
  const simt::Memory in(buffer.data(), buffer.count * codec::dtype_size(buffer.dtype),
                        simt::Access::kReadOnly, "elements");
  const simt::Memory out(&state, sizeof(LearningState), simt::Access::kReadWrite, "state");
  Launch first = launch;
  first.blocks = 1;
  cpu_clear_learning(work_of(Stage::kWidest, buffer, block, state), first);
  for (const Stage stage : {Stage::kWidest, Stage::kHistogram})
    cpu_learn(work_of(stage, buffer, block, state), launch);
  return state;
}

TEST(LearningKernel, SeesWhatTheHostSees) {
  codec::Random random(1);
  uint64_t seed = 0;
  for (int kin = 0; kin < codec::kKins; ++kin)
    for (const size_t count : {0, 1, 7, 31, 997, 5000})
      for (const uint32_t block : {32, 160, 1024, 4096}) {
        const Floats x = codec::numbers(static_cast<codec::Kin>(kin), count, random);
        for (const Dtype dtype : codec::kAllDtypes) {
          const Buffer buffer = make_buffer(x, dtype, 0);
          const uint32_t blocks = 1 + random.below(5);
          EXPECT_TRUE(on_kernel(buffer, block, {blocks, seed++}) == on_host(buffer, block))
              << "kin " << kin << ", " << codec::name_of(dtype) << " " << count << " by " << block;
        }
      }
}

TEST(LearningKernel, BlocksMayNotBeFiniteOrConstantOrHuge) {
  const float most = std::numeric_limits<float>::max();
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -codec::bits_float(codec::kNanBits),
        std::numeric_limits<float>::infinity(), -most, 1e20f})
    for (const Dtype dtype : codec::kAllDtypes) {
      Floats x = codec::gaussian(1000, 2);
      std::fill(x.begin() + 128, x.begin() + 256, 3.0f);
      x[300] = bad;
      x[450] = bad, x[451] = most;
      const Buffer buffer = make_buffer(x, dtype, 0);
      for (uint64_t seed = 0; seed < 3; ++seed)
        EXPECT_TRUE(on_kernel(buffer, 128, {2, seed}) == on_host(buffer, 128)) << bad;
    }
}

TEST(LearningKernel, ElementsMayLieAnywhere) {
  const Floats x = codec::gaussian(777, 3);
  for (const Dtype dtype : codec::kAllDtypes)
    for (size_t offset = 1; offset < 17; ++offset) {
      const Buffer buffer = make_buffer(x, dtype, offset);
      EXPECT_TRUE(on_kernel(buffer, 128, {2, offset}) == on_host(buffer, 128)) << offset;
    }
}

// Bins that say much of rounding, or little.
State histogram(int which, uint64_t seed) {
  State state;
  codec::Random random(seed);
  state.widest = 0;
  for (uint32_t i = 0; i < codec::kBins; ++i) {
    uint64_t& bin = state.bins[i];
    bin = 0;
    if (which == 0) bin = random.below(1000);
    if (which == 1) bin = random.next() >> 12 >> random.below(40);
    if (which == 2) bin = i % 97 == 5 ? 1 + random.below(5) : 0;
    if (which == 3) bin = i == 700;
    if (which == 4) bin = uint64_t{1} << (i / 24);
    if (which == 5) bin = (codec::kBins - i) << 25 | random.below(1 << 24);
  }
  if (which != 5) return state;
  // Their sum is a power of two, so that each matters for how it is shifted.
  state.bins[0] +=
      (uint64_t{1} << 45) - std::accumulate(state.bins, std::end(state.bins), uint64_t{0});
  return state;
}

constexpr int kHistograms = 7;  // the last one is empty

struct Fit {
  int bits;
  Rounding rounding;

  codec::Learning work(State& state, Floats& table) const {
    return {Stage::kFit, Dtype::kFloat32, static_cast<uint8_t>(bits), rounding, 128, 0, nullptr,
            &state,      table.data()};
  }
  Floats no_table() const { return Floats(codec::codebook_floats(bits), -1.0f); }

  Floats on_host(State state) const {
    Floats table = no_table();
    codec::learn(work(state, table));
    return table;
  }

  Floats on_kernel(State state, uint64_t seed, const simt::Planter* planter = nullptr) const {
    Floats table = no_table();
    const simt::Memory in(&state, sizeof(LearningState), simt::Access::kReadOnly, "state");
    const simt::Memory out(table.data(), table.size() * sizeof(float), simt::Access::kReadWrite,
                           "table");
    cpu_learn(work(state, table), Launch{1, seed, planter});
    return table;
  }
};

TEST(LearningKernel, FitsAsTheHostDoes) {
  uint64_t seed = 0;
  for (const Rounding rounding : {Rounding::kNearest, Rounding::kStochastic})
    for (int bits = codec::kMinBits; bits <= codec::kMaxBits; ++bits)
      for (int which = 0; which < kHistograms; ++which) {
        const Fit fit{bits, rounding};
        const State state = histogram(which, ++seed);
        const Floats want = fit.on_host(state);
        EXPECT_EQ(want == fit.no_table(), which == kHistograms - 1);
        EXPECT_EQ(fit.on_kernel(state, seed), want)
            << bits << " bits, " << static_cast<int>(rounding) << ", histogram " << which;
      }
}

TEST(LearningKernel, NoMistakeInWhatIsSeenGoesUnnoticed) {
  using enum simt::Mistake;
  std::vector<Trial> trials;
  for (size_t count = 300; count < 400; ++count) {
    const Buffer buffer = make_buffer(codec::gaussian(count, count), Dtype::kFloat32, count % 2);
    trials.emplace_back([=, want = on_host(buffer, 256)](const simt::Planter* planter) {
      return on_kernel(buffer, 256, {2, count, planter}) == want;
    });
  }
  EXPECT_EQ(expect_noticed(trials),
            (std::set{kNoBarrier, kWrongLane, kStoresFurther, kLoadsFurther}));
}

TEST(LearningKernel, NoMistakeInTheFitGoesUnnoticed) {
  using enum simt::Mistake;
  std::vector<Trial> trials;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Fit fit{8, seed % 2 == 0 ? Rounding::kNearest : Rounding::kStochastic};
    const State state = histogram(seed % 4 < 2 ? 1 : 5, seed);
    trials.emplace_back([=, want = fit.on_host(state)](const simt::Planter* planter) {
      return fit.on_kernel(state, seed, planter) == want;
    });
  }
  EXPECT_EQ(expect_noticed(trials), (std::set{kNoBarrier, kStoresFurther, kLoadsFurther}));
}

}  // namespace
}  // namespace terse::kernels
