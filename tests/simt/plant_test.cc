// Mistakes are made where they are planted, and nowhere else.
#include "simt/plant.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "expect_fault.h"

namespace terse::simt {
namespace {

struct Words {
  uint32_t word[kWarp + 1];
};

// A kernel with a call of each kind.
constexpr uint32_t kFirstLine = __LINE__ + 3;
void body(const uint32_t* in, uint32_t* out, Words& shared) {
  const uint32_t t = thread_index();
  uint32_t value = load(&in[t]);
  value = shuffle_xor(value, 2);
  value = shuffle(value, t ^ 2);
  shared_store(shared.word[t], value);
  sync_warp();
  value = shared_load(shared.word[t ^ 1]);
  sync_block();
  shared_store(shared.word[t], value);
  store(&out[t ^ 1], value);
}

Plant at_line(Mistake mistake, uint32_t after_first) {
  return {mistake, Site::here(__builtin_FILE(), kFirstLine + after_first)};
}

const Plant kLoad = at_line(Mistake::kLoadsFurther, 0),
            kShuffleXor = at_line(Mistake::kWrongLane, 1),
            kShuffle = at_line(Mistake::kWrongLane, 2),
            kSharedStore = at_line(Mistake::kStoresFurther, 3),
            kSyncWarp = at_line(Mistake::kNoBarrier, 4),
            kSharedLoad = at_line(Mistake::kLoadsFurther, 5),
            kSyncBlock = at_line(Mistake::kNoBarrier, 6),
            kSharedStoreAgain = at_line(Mistake::kStoresFurther, 7),
            kStore = at_line(Mistake::kStoresFurther, 8);

class PlantedFaults : public testing::Test {
 protected:
  PlantedFaults() {
    for (uint32_t i = 0; i < in_.size(); ++i) in_[i] = 100 + i;
  }

  // What the threads store, or the Fault's message.
  std::string run_with(const Planter& planter, uint64_t seed = 0) {
    out_.fill(0);
    const auto fault = fault_of<Words>({.seed = seed, .planter = &planter}, [&](Words& shared) {
      body(in_.data(), out_.data(), shared);
    });
    return fault ? fault->what() : "";
  }

  // Makes one mistake: every thread, or one.
  std::string run_with(const Plant& plant, uint32_t only = kWarp) {
    return run_with([&](const Plant& here, uint32_t thread) {
      return here == plant && (only == kWarp || only == thread);
    });
  }

  std::array<uint32_t, kWarp + 1> in_, out_;
};

TEST_F(PlantedFaults, AreFound) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::set<Plant> found;
    std::set<uint32_t> threads;
    EXPECT_EQ(run_with(
                  [&](const Plant& plant, uint32_t thread) {
                    found.insert(plant);
                    threads.insert(thread);
                    return false;
                  },
                  seed),
              "");
    EXPECT_EQ(found, (std::set<Plant>{kLoad, kShuffleXor, kShuffle, kSharedStore, kSyncWarp,
                                      kSharedLoad, kSyncBlock, kSharedStoreAgain, kStore}));
    EXPECT_EQ(threads.size(), kWarp);
    for (uint32_t t = 0; t < kWarp; ++t) EXPECT_EQ(out_[t], in_[t]);
  }
}

TEST_F(PlantedFaults, LoadTakesTheElementAfter) {
  EXPECT_EQ(run_with(kLoad), "");
  for (uint32_t t = 0; t < kWarp; ++t) EXPECT_EQ(out_[t], in_[t] + 1);
  EXPECT_EQ(run_with(kLoad, 7), "");
  for (uint32_t t = 0; t < kWarp; ++t) EXPECT_EQ(out_[t], in_[t] + (t == 7));
}

TEST_F(PlantedFaults, ShufflesReadFromTheNeighbour) {
  for (const Plant& plant : {kShuffleXor, kShuffle}) {
    EXPECT_EQ(run_with(plant), "");
    for (uint32_t t = 0; t < kWarp; ++t) EXPECT_EQ(out_[t], in_[t ^ 1]);
  }
  EXPECT_EQ(run_with(kShuffle, 8), "");
  for (uint32_t t = 0; t < kWarp; ++t) EXPECT_EQ(out_[t], t == 8 ? in_[9] : in_[t]);
}

TEST_F(PlantedFaults, StoreGoesToTheElementAfter) {
  EXPECT_EQ(run_with(kStore, 30), "");
  EXPECT_EQ(out_[31], 0u);
  EXPECT_EQ(out_[32], in_[31]);
  const Memory in(in_.data(), sizeof in_, Access::kReadOnly, "in");
  const Memory out(out_.data(), kWarp * sizeof(uint32_t), Access::kReadWrite, "out");
  EXPECT_NE(run_with(kStore).find("out of bounds (plant_test.cc:"), std::string::npos);
}

TEST_F(PlantedFaults, SharedAccessesGoToTheElementAfter) {
  EXPECT_NE(run_with(kSharedLoad, 30).find("offset 128, which no thread of the block has written"),
            std::string::npos);
  EXPECT_NE(run_with(kSharedStore).find("offset 0, which no thread of the block has written"),
            std::string::npos);
}

TEST_F(PlantedFaults, BarriersAreLeftOut) {
  for (const Plant& plant : {kSyncWarp, kSyncBlock})
    EXPECT_NE(run_with(plant).find("shared memory at offset"), std::string::npos);
  EXPECT_NE(run_with(kSyncBlock, 3), "");  // by one thread
}

TEST(Plant, SaysWhatAndWhere) {
  EXPECT_EQ(to_string(Plant{Mistake::kNoBarrier, {"/some/where.h", 12}}),
            "the barrier at where.h:12 is left out");
  EXPECT_EQ(to_string(Plant{Mistake::kWrongLane, {"where.h", 3}}),
            "the shuffle at where.h:3 reads from a neighbouring lane");
}

}  // namespace
}  // namespace terse::simt
