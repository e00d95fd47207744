// Accesses to shared memory that lack a barrier, or are wrong whatever the order, are noticed.
#include "simt/shared_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "expect_fault.h"

namespace terse::simt {
namespace {

struct Words {
  uint32_t word[64];
};

TEST(Race, ReadWithoutBarrier) {
  expect_fault<Words>({.threads = 64}, "missing barrier: |no thread of the block has written",
                      [](Words& shared) {
                        const uint32_t t = thread_index();
                        shared_store(shared.word[t], t);
                        shared_load(shared.word[63 - t]);
                      });
  // Whoever comes first: it has been written.
  expect_fault<Words>({.threads = 64},
                      "missing barrier: reads shared memory at offset 0, which thread 5",
                      [](Words& shared) {
                        if (thread_index() == 5) shared_store(shared.word[0], 1u);
                        if (thread_index() / kWarp == 0) ballot(true);
                        if (thread_index() == 9) shared_load(shared.word[0]);
                      });
}

TEST(Race, WriteWithoutBarrier) {
  const std::string words =
      "missing barrier: writes shared memory at offset 12|"
      "missing barrier: reads shared memory at offset 12";
  // Two writers.
  expect_fault<Words>({.threads = 64}, words, [](Words& shared) {
    if (thread_index() % 40 == 0) shared_store(shared.word[3], 1u);
  });
  // A reader of the old value and the writer of the next.
  expect_fault<Words>({.threads = 64}, words, [](Words& shared) {
    if (thread_index() == 7) shared_store(shared.word[3], 1u);
    sync_block();
    shared_load(shared.word[3]);
    if (thread_index() == 50) shared_store(shared.word[3], 2u);
  });
}

// A reader is not forgotten because another read after it.
TEST(Race, EveryReaderCounts) {
  for (uint32_t writer = 0; writer < 96; ++writer) {
    for (uint32_t reader = 0; reader < 96; reader += 19) {
      if (reader == writer) continue;
      const auto fault = fault_of<Words>({.threads = 96, .seed = writer}, [&](Words& shared) {
        if (thread_index() == 0) shared_store(shared.word[3], 1u);
        sync_block();
        if (thread_index() == reader) shared_load(shared.word[3]);
        sync_warp();
        if (thread_index() == writer) shared_load(shared.word[3]);
        sync_block();
        if (thread_index() == reader || thread_index() == writer) shared_load(shared.word[3]);
        if (thread_index() == writer) shared_store(shared.word[3], 2u);
      });
      ASSERT_TRUE(fault.has_value()) << writer << " " << reader;
      EXPECT_NE(std::string(fault->what()).find("missing barrier"), std::string::npos);
    }
  }
}

TEST(Race, SyncWarpIsNotEnoughForTwoWarps) {
  expect_fault<Words>({.threads = 64}, "with no sync_block in between|no thread of the block has",
                      [](Words& shared) {
                        const uint32_t t = thread_index();
                        shared_store(shared.word[t], t);
                        sync_warp();
                        shared_load(shared.word[63 - t]);
                      });
}

// Shuffles and ballots order no accesses to memory.
TEST(Race, CollectivesAreNoBarriers) {
  expect_fault<Words>({}, "with no sync_warp or sync_block in between", [](Words& shared) {
    const uint32_t t = thread_index();
    shared_store(shared.word[t], t);
    shuffle_xor(t, 1);
    ballot(true);
    shared_load(shared.word[t ^ 1]);
  });
}

struct Counts {
  uint64_t count[4];
};

TEST(Race, AdditionsNeedNoBarrier) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    uint64_t sum = 0;
    run<Counts>({.threads = 64, .seed = seed}, [&](Counts& shared) {
      const uint32_t t = thread_index();
      if (t < 4) shared_store(shared.count[t], uint64_t{5});
      sync_block();
      shared_atomic_add(shared.count[t % 2], uint64_t{t} << 32);
      shared_atomic_add(shared.count[1 - t % 2], uint64_t{1});
      sync_block();
      if (t == 7) sum = shared_load(shared.count[0]) + shared_load(shared.count[1]);
    });
    EXPECT_EQ(sum, 10 + 64 + (uint64_t{63 * 32} << 32));
  }
}

TEST(Race, AdditionsNeedTheBlocksBarriersAround) {
  const auto add_one = [](Counts& shared) { shared_atomic_add(shared.count[1], uint64_t{1}); };
  expect_fault<Counts>({}, "adds to shared memory at offset 8, which no thread of the block has",
                       add_one);
  expect_fault<Counts>({}, "missing barrier|no thread of the block has", [&](Counts& shared) {
    if (thread_index() == 3) shared_store(shared.count[1], uint64_t{0});
    add_one(shared);
  });
  const auto started = [&](Counts& shared) {
    if (thread_index() == 3) shared_store(shared.count[1], uint64_t{0});
    sync_block();
    add_one(shared);
    sync_warp();
  };
  // By a thread of the warp that added last, too.
  expect_fault<Counts>({.threads = 64}, "missing barrier: reads shared memory at offset 8, which",
                       [&](Counts& shared) {
                         started(shared);
                         if (thread_index() == 9) shared_load(shared.count[1]);
                       });
  expect_fault<Counts>({.threads = 64}, "missing barrier: adds to|missing barrier: writes",
                       [&](Counts& shared) {
                         started(shared);
                         if (thread_index() == 9) shared_store(shared.count[1], uint64_t{0});
                       });
  // A reader of what was there before.
  expect_fault<Counts>({}, "missing barrier: adds to|missing barrier: reads", [&](Counts& shared) {
    if (thread_index() == 3) shared_store(shared.count[1], uint64_t{0});
    sync_block();
    if (thread_index() == 5) shared_load(shared.count[1]);
    if (thread_index() == 6) add_one(shared);
  });
  expect_fault<Counts>({}, "shared_atomic_add of 8 bytes at offset 32", [](Counts& shared) {
    uint64_t* const counts = shared.count;
    shared_atomic_add(counts[4 + thread_index() % 1], uint64_t{1});
  });
}

TEST(Race, BytesOfOneWord) {
  struct Bytes {
    union {
      uint8_t byte[4];
      uint32_t word;
    };
  };
  run<Bytes>({}, [](Bytes& shared) {
    if (thread_index() < 4) shared_store(shared.byte[thread_index()], uint8_t{1});
  });
  expect_fault<Bytes>({}, "shared memory at offset 2, which", [](Bytes& shared) {
    if (thread_index() < 4) shared_store(shared.byte[thread_index()], uint8_t{1});
    if (thread_index() == 9) shared_store(shared.byte[2], uint8_t{1});
  });
  expect_fault<Bytes>({}, "missing barrier", [](Bytes& shared) {
    if (thread_index() == 3) shared_store(shared.byte[3], uint8_t{1});
    if (thread_index() == 9) shared_store(shared.word, 1u);
  });
}

TEST(SharedMemory, NeverWritten) {
  expect_fault<Words>({.blocks = 2, .threads = 64},
                      "reads shared memory at offset 20, which no thread of the block has written",
                      [](Words& shared) {
                        // The block before has written it; this one has not.
                        if (thread_index() != 5) shared_store(shared.word[thread_index()], 1u);
                        sync_block();
                        shared_load(shared.word[5]);
                        if (thread_index() == 6) shared_store(shared.word[5], 1u);
                      });
  int blocks = 0;
  const auto fault = fault_of<Words>({.blocks = 4}, [&](Words& shared) {
    if (thread_index() == 0 && blocks++ == 0) shared_store(shared.word[0], 1u);
    sync_block();
    shared_load(shared.word[0]);
  });
  EXPECT_TRUE(fault.has_value());
}

TEST(SharedMemory, OutOfBounds) {
  alignas(16) uint32_t elsewhere[4] = {};
  expect_fault<Words>({}, "of the block's shared memory (256 bytes), which is out of bounds",
                      [&](Words&) { shared_store(elsewhere[1], 1u); });
  expect_fault<Words>({}, "shared_load of 4 bytes at offset 256", [](Words& shared) {
    const uint32_t* const words = shared.word;
    shared_load(words[64 + thread_index() % 1]);
  });
}

TEST(SharedMemory, Misaligned) {
  struct Bytes {
    alignas(16) uint8_t byte[32];
  };
  struct Word {
    uint8_t byte[4];
  };
  expect_fault<Bytes>({}, "shared_store of 4 bytes at offset 6", [](Bytes& shared) {
    shared_store(reinterpret_cast<Word&>(shared.byte[6]), Word{});
  });
}

}  // namespace
}  // namespace terse::simt
