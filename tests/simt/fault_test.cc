// What a Fault says, and what comes after one.
#include "simt/fault.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

#include "expect_fault.h"

namespace terse::simt {
namespace {

TEST(Fault, SaysWhereItIs) {
  const auto fault = fault_of({.blocks = 3, .threads = 64}, [](Nothing&) {
    if (block_index() == 2 && thread_index() == 37) throw std::runtime_error("no luck");
  });
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->block(), 2u);
  EXPECT_EQ(fault->thread(), 37u);
  EXPECT_STREQ(fault->what(), "block 2, thread 37 (warp 1, lane 5): threw: no luck");
}

TEST(Fault, CarriesTheException) {
  try {
    run<Nothing>({}, [](Nothing&) {
      sync_warp();
      if (thread_index() == 3) throw 17;
      sync_warp();
    });
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.thread(), 3u);
    EXPECT_THROW(std::rethrow_if_nested(fault), int);
  }
}

TEST(FaultedLaunch, UnwindsUnfinishedThreads) {
  const auto token = std::make_shared<int>(1);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    int begun = 0;
    const auto fault = fault_of({.threads = 256, .seed = seed}, [&](Nothing&) {
      const std::shared_ptr<int> held = token;
      const std::vector<int> some(100, 7);
      ++begun;
      if (thread_index() == 99) throw std::runtime_error("no luck");
      sync_block();
    });
    EXPECT_TRUE(fault.has_value());
    EXPECT_GT(begun, 0);
    EXPECT_EQ(token.use_count(), 1);
  }
}

TEST(FaultedLaunch, StopsAllThreads) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    int begun = 0, passed = 0;
    const auto fault = fault_of({.blocks = 2, .threads = 64, .seed = seed}, [&](Nothing&) {
      if (++begun == 10) throw std::runtime_error("no luck");
      sync_block();
      ++passed;
    });
    EXPECT_TRUE(fault.has_value());
    EXPECT_EQ(begun, 10);
    EXPECT_EQ(passed, 0);
  }
}

TEST(FaultedLaunch, LeavesTheNextLaunchAlone) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_TRUE(fault_of({.blocks = 2, .threads = 64, .seed = seed}, [](Nothing&) {
                  ballot(true);
                  if (thread_index() == 20) sync_block();
                }).has_value());
    uint32_t sum = 0;
    run<Nothing>({.blocks = 2, .threads = 64, .seed = seed}, [&](Nothing&) {
      sync_block();
      atomic_add(&sum, ballot(true));
    });
    EXPECT_EQ(sum, 0u - 128);
  }
}

TEST(FaultedLaunch, EndsABodyThatCatchesEverything) {
  EXPECT_TRUE(fault_of({.threads = 64}, [](Nothing&) {
                for (int i = 0; i < 10; ++i) {
                  try {
                    if (thread_index() == 3) throw Fault(0, 3, "no luck");
                    sync_block();
                  } catch (...) {
                  }
                }
              }).has_value());
}

TEST(Launches, DoNotNest) {
  expect_fault({}, "threw: a kernel cannot launch another",
               [](Nothing&) { run<Nothing>({}, [](Nothing&) {}); });
}

}  // namespace
}  // namespace terse::simt
